#include "engine/communicator.h"

#include <gtest/gtest.h>

#include <numeric>

#include "core/error.h"
#include "tests/engine/ranks.h"

namespace orrery::engine {
namespace {

using core::Rank;

// The k-th send with a tag meets the k-th receive with that tag, whoever is first.
TEST(InProcessCommunicator, MessagesMeetInOrderByTag) {
  on_ranks(2, [](Communicator& c) {
    if (c.rank() == Rank(0)) {
      const int values[] = {1, 2, 3};
      const auto a = c.start_send(Rank(1), 7, &values[0], sizeof(int));
      const auto b = c.start_send(Rank(1), 8, &values[1], sizeof(int));
      const auto d = c.start_send(Rank(1), 7, &values[2], sizeof(int));
      for (const auto request : {d, b, a}) finish(c, request);
      return;
    }
    int got[3] = {};
    const auto b = c.start_receive(Rank(0), 8, &got[1], sizeof(int));
    finish(c, b);
    const auto a = c.start_receive(Rank(0), 7, &got[0], sizeof(int));
    const auto d = c.start_receive(Rank(0), 7, &got[2], sizeof(int));
    finish(c, d);
    finish(c, a);
    EXPECT_EQ(got[0], 1);
    EXPECT_EQ(got[1], 2);
    EXPECT_EQ(got[2], 3);
  });
}

TEST(InProcessCommunicator, ARankSendsToItself) {
  on_ranks(1, [](Communicator& c) {
    const double out = 2.5;
    double in = 0.0;
    const auto send = c.start_send(Rank(0), 1, &out, sizeof out);
    const auto receive = c.start_receive(Rank(0), 1, &in, sizeof in);
    finish(c, send);
    finish(c, receive);
    EXPECT_EQ(in, 2.5);
  });
}

// Rendezvous: a send is not done before its receive has started.
TEST(InProcessCommunicator, ASendWaitsForItsReceive) {
  on_ranks(2, [](Communicator& c) {
    int value = 5;
    int go = 0;
    if (c.rank() == Rank(0)) {
      const auto send = c.start_send(Rank(1), 1, &value, sizeof value);
      for (int i = 0; i < 100; ++i) EXPECT_FALSE(c.test(send));
      const auto signal = c.start_send(Rank(1), 2, &go, sizeof go);
      finish(c, signal);
      finish(c, send);
    } else {
      finish(c, c.start_receive(Rank(0), 2, &go, sizeof go));
      int got = 0;
      finish(c, c.start_receive(Rank(0), 1, &got, sizeof got));
      EXPECT_EQ(got, 5);
    }
  });
}

TEST(InProcessCommunicator, EmptyMessagesMeetToo) {
  on_ranks(2, [](Communicator& c) {
    const Rank other(1 - c.rank().value);
    const auto send = c.start_send(other, 3, nullptr, 0);
    const auto receive = c.start_receive(other, 3, nullptr, 0);
    finish(c, receive);
    finish(c, send);
  });
}

// Every rank to every rank, many messages at once: each arrives whole at its place.
TEST(InProcessCommunicator, ManyMessagesBetweenManyRanks) {
  constexpr int kRanks = 5;
  constexpr int kMessages = 40;
  static constexpr std::size_t kLength = 300;
  on_ranks(kRanks, [](Communicator& c) {
    std::vector<std::vector<int>> out, in;
    std::vector<Communicator::Request> requests;
    for (int m = 0; m < kMessages; ++m) {
      for (int peer = 0; peer < kRanks; ++peer) {
        out.emplace_back(kLength, m * 1000 + c.rank().value * 10 + peer);
        in.emplace_back(kLength, -1);
      }
    }
    for (int m = 0; m < kMessages; ++m) {
      for (int peer = 0; peer < kRanks; ++peer) {
        const auto at = static_cast<std::size_t>(m * kRanks + peer);
        requests.push_back(
            c.start_receive(Rank(peer), m % 3, in[at].data(), kLength * sizeof(int)));
        requests.push_back(c.start_send(Rank(peer), m % 3, out[at].data(), kLength * sizeof(int)));
      }
    }
    for (const auto request : requests) finish(c, request);
    for (int m = 0; m < kMessages; ++m) {
      for (int peer = 0; peer < kRanks; ++peer) {
        const auto& got = in[static_cast<std::size_t>(m * kRanks + peer)];
        EXPECT_EQ(got, std::vector<int>(kLength, m * 1000 + peer * 10 + c.rank().value));
      }
    }
  });
}

// A rank that fails ends all: the others' next call says who it was and why.
TEST(InProcessCommunicator, AFailureReachesEveryRank) {
  std::string seen;
  try {
    on_ranks(3, [&](Communicator& c) {
      if (c.rank() == Rank(2)) throw core::SystemError("no more memory");
      int value = 0;
      try {
        finish(c, c.start_receive(Rank(2), 1, &value, sizeof value));
      } catch (const core::SystemError& error) {
        EXPECT_STREQ(error.what(), "rank 2: no more memory");
        throw;
      }
    });
  } catch (const core::SystemError& error) {
    seen = error.what();
  }
  EXPECT_EQ(seen, "rank 2: no more memory");
}

}  // namespace
}  // namespace orrery::engine
