#include "engine/collective.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "tests/engine/ranks.h"

namespace orrery::engine {
namespace {

using core::CollectiveKind;
using core::Rank;
using core::Reduction;

std::vector<float> values_of(int rank, std::int64_t count) {
  std::mt19937 random(static_cast<unsigned>(rank + 1));
  std::normal_distribution<float> normal(0.0F, 1.0F);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

std::vector<Rank> all_ranks(int ranks) {
  std::vector<Rank> all;
  for (int r = 0; r < ranks; ++r) all.emplace_back(r);
  return all;
}

void run(Communicator& c, CollectiveCall call, const std::vector<Rank>& members) {
  call.members = members;
  call.position =
      static_cast<int>(std::find(members.begin(), members.end(), c.rank()) - members.begin());
  CollectiveRun collective;
  collective.start(c, call);
  wait_until(c, [&] { return collective.poll(c); });
}

// ((x₀ + x₁) + x₂) + ... in float, or the largest.
std::vector<float> reduced(const std::vector<Rank>& members, std::int64_t count, Reduction how) {
  std::vector<float> total = values_of(members[0].value, count);
  for (std::size_t m = 1; m < members.size(); ++m) {
    const std::vector<float> x = values_of(members[m].value, count);
    for (std::size_t i = 0; i < total.size(); ++i) {
      total[i] = how == Reduction::Sum ? total[i] + x[i] : std::max(total[i], x[i]);
    }
  }
  return total;
}

struct Size {
  int ranks;
  std::int64_t count;
};

// One exchange (short), one segment, several segments, counts that do not divide, empty parts.
const Size kSizes[] = {{1, 10},     {2, 1},       {3, 2},       {2, 2048}, {2, 2049},
                       {3, 10'000}, {4, 100'003}, {2, 300'001}, {8, 5},    {8, 40'000}};

class AllReduce : public testing::TestWithParam<Size> {};

// Bit for bit the sum in the order of the members, at every member.
TEST_P(AllReduce, AddsInTheOrderOfTheMembers) {
  const auto [ranks, count] = GetParam();
  for (const Reduction how : {Reduction::Sum, Reduction::Max}) {
    const std::vector<Rank> members = all_ranks(ranks);
    const std::vector<float> expected = reduced(members, count, how);
    on_ranks(ranks, [&, n = count](Communicator& c) {
      std::vector<float> data = values_of(c.rank().value, n);
      CollectiveCall call;
      call.reduction = how;
      call.in = call.out = data.data();
      call.in_count = call.out_count = n;
      run(c, call, members);
      EXPECT_EQ(data, expected);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, AllReduce, testing::ValuesIn(kSizes), [](const auto& size) {
  return "Ranks" + std::to_string(size.param.ranks) + "Count" + std::to_string(size.param.count);
});

// The order is that of the group, not of the ranks' numbers.
TEST(AllReduceOrder, FollowsTheGroup) {
  const std::vector<Rank> members = {Rank(2), Rank(0), Rank(1)};
  const std::vector<float> expected = reduced(members, 5000, Reduction::Sum);
  on_ranks(3, [&](Communicator& c) {
    std::vector<float> data = values_of(c.rank().value, 5000);
    CollectiveCall call;
    call.in = call.out = data.data();
    call.in_count = call.out_count = 5000;
    run(c, call, members);
    EXPECT_EQ(data, expected);
  });
}

TEST(ReduceScatter, WritesThisRanksSliceInPlace) {
  constexpr std::int64_t kCount = 4 * 70'000;
  const std::vector<Rank> members = all_ranks(4);
  const std::vector<float> expected = reduced(members, kCount, Reduction::Sum);
  on_ranks(4, [&](Communicator& c) {
    std::vector<float> data = values_of(c.rank().value, kCount);
    const std::int64_t first = c.rank().value * kCount / 4;
    CollectiveCall call;
    call.kind = CollectiveKind::ReduceScatter;
    call.in = data.data();
    call.in_count = kCount;
    call.out = data.data() + first;
    call.out_count = kCount / 4;
    run(c, call, members);
    for (std::int64_t i = first; i < first + kCount / 4; ++i) {
      ASSERT_EQ(data[static_cast<std::size_t>(i)], expected[static_cast<std::size_t>(i)]);
    }
  });
}

TEST(AllGather, WritesEverySlice) {
  constexpr std::int64_t kPart = 1234;
  const std::vector<Rank> members = all_ranks(3);
  std::vector<float> expected;
  for (const Rank rank : members) {
    const std::vector<float> part = values_of(rank.value, kPart);
    expected.insert(expected.end(), part.begin(), part.end());
  }
  on_ranks(3, [&](Communicator& c) {
    std::vector<float> part = values_of(c.rank().value, kPart);
    std::vector<float> whole(3 * kPart, 0.0F);
    CollectiveCall call;
    call.kind = CollectiveKind::AllGather;
    call.in = part.data();
    call.in_count = kPart;
    call.out = whole.data();
    call.out_count = 3 * kPart;
    run(c, call, members);
    EXPECT_EQ(whole, expected);
  });
}

TEST(Broadcast, SendsTheFirstMembersData) {
  const std::vector<Rank> members = {Rank(1), Rank(0), Rank(2)};
  on_ranks(3, [&](Communicator& c) {
    std::vector<float> data = values_of(c.rank().value, 777);
    CollectiveCall call;
    call.kind = CollectiveKind::Broadcast;
    call.in = call.out = data.data();
    call.in_count = call.out_count = 777;
    run(c, call, members);
    EXPECT_EQ(data, values_of(1, 777));
  });
}

// Member p's part q goes to member q's part p.
TEST(AllToAll, TransposesTheParts) {
  const std::vector<Rank> members = all_ranks(4);
  on_ranks(4, [&](Communicator& c) {
    std::vector<std::int32_t> in(8), out(8, -1);
    for (int q = 0; q < 4; ++q) {
      in[static_cast<std::size_t>(2 * q)] = c.rank().value * 100 + q;
      in[static_cast<std::size_t>(2 * q + 1)] = -c.rank().value;
    }
    CollectiveCall call;
    call.kind = CollectiveKind::AllToAll;
    call.in = in.data();
    call.out = out.data();
    call.in_count = call.out_count = 8;
    run(c, call, members);
    for (int p = 0; p < 4; ++p) {
      EXPECT_EQ(out[static_cast<std::size_t>(2 * p)], p * 100 + c.rank().value);
      EXPECT_EQ(out[static_cast<std::size_t>(2 * p + 1)], -p);
    }
  });
}

// Several collectives of one group one after the other, without a pause, and two groups at once.
TEST(Collectives, FollowEachOtherAndOverlap) {
  const std::vector<Rank> members = all_ranks(3);
  on_ranks(3, [&](Communicator& c) {
    std::vector<float> a(20'000), b(20'000);
    CollectiveRun on_a, on_b;
    for (int round = 1; round <= 5; ++round) {
      std::fill(a.begin(), a.end(), static_cast<float>(round));
      std::fill(b.begin(), b.end(), static_cast<float>(10 * round));
      CollectiveCall call;
      call.members = members;
      call.position = c.rank().value;
      call.in_count = call.out_count = 20'000;
      call.tag = 1;
      call.in = call.out = a.data();
      on_a.start(c, call);
      call.tag = 2;
      call.in = call.out = b.data();
      on_b.start(c, call);
      bool a_done = false;
      bool b_done = false;
      wait_until(c, [&] {
        a_done = a_done || on_a.poll(c);
        b_done = b_done || on_b.poll(c);
        return a_done && b_done;
      });
      EXPECT_EQ(a[19'999], static_cast<float>(3 * round));
      EXPECT_EQ(b[0], static_cast<float>(30 * round));
    }
  });
}

}  // namespace
}  // namespace orrery::engine
