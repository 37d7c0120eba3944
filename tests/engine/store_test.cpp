#include "engine/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/error.h"
#include "core/lowering/lowering_sparse.h"

namespace orrery::engine {
namespace {

using ::testing::ElementsAre;

constexpr core::Optimizer kAdaGrad{.kind = core::OptimizerKind::AdaGrad,
                                   .learning_rate = 0.05,
                                   .epsilon = 1e-10,
                                   .initial_accumulator = 0.1};

/// 7 rows of (2 + 1) on `servers` servers.
core::Embedding embedding(int servers) {
  return {.fields = {{.first_row = 0, .rows = 4, .initial_stddev = 0.5},
                     {.first_row = 4, .rows = 3, .initial_stddev = 0.25}},
          .rows = 7,
          .dim = 2,
          .wide = true,
          .servers = servers};
}

struct Shard {
  Shard(const core::Embedding& of, int server)
      : rows(4 * 3 * 2), state(rows.size()), store(of, server, rows, state) {}
  std::vector<float> rows, state;
  Store store;
};

// Row r = (10r, 10r + 1 ; 10r + 2). Server 1 of 2 keeps rows 1, 3, 5.
TEST(Store, KeepsTheRowsOfItsServer) {
  const core::Embedding of = embedding(2);
  Shard shard(of, 1);
  std::vector<float> emb, wide;
  for (int r = 0; r < 7; ++r) {
    emb.push_back(static_cast<float>(10 * r));
    emb.push_back(static_cast<float>(10 * r + 1));
    wide.push_back(static_cast<float>(10 * r + 2));
  }
  shard.store.initialize(emb, wide, kAdaGrad);
  EXPECT_EQ(Store::local_rows(of, 1), 3);
  std::vector<float> out(6);
  shard.store.read(std::vector<std::int32_t>{5, 1}, out.data());
  EXPECT_THAT(out, ElementsAre(50, 51, 52, 10, 11, 12));
  EXPECT_THROW(shard.store.read(std::vector<std::int32_t>{2}, out.data()), core::SystemError);
  EXPECT_THROW(shard.store.read(std::vector<std::int32_t>{7}, out.data()), core::SystemError);

  std::vector<float> emb_back(14, -1.0F), wide_back(7, -1.0F);
  Store::copy(of, 1, shard.rows, emb_back, wide_back);
  EXPECT_THAT(emb_back, ElementsAre(-1, -1, 10, 11, -1, -1, 30, 31, -1, -1, 50, 51, -1, -1));
  EXPECT_THAT(wide_back, ElementsAre(-1, 12, -1, 32, -1, 52, -1));
}

// state = 0.1 + g², row = 1 − 0.05·g/(√state + 1e-10); the rows beside it are untouched.
TEST(Store, UpdatesOnlyTheRowsThatWerePushed) {
  const core::Embedding of = embedding(1);
  Shard shard(of, 0);
  shard.store.initialize(std::vector<float>(14, 1.0F), std::vector<float>(7, 1.0F), kAdaGrad);
  const std::vector<float> gradient = {0.3F, -2.0F, 0.0F};
  shard.store.update(std::vector<std::int32_t>{3}, gradient.data(), kAdaGrad);
  std::vector<float> out(6);
  shard.store.read(std::vector<std::int32_t>{3, 4}, out.data());
  for (std::size_t j = 0; j < 3; ++j) {
    const double g = gradient[j];
    EXPECT_FLOAT_EQ(out[j], static_cast<float>(1.0 - 0.05 * g / (std::sqrt(0.1 + g * g) + 1e-10)));
    EXPECT_EQ(out[3 + j], 1.0F);
  }
  std::vector<float> emb(14), wide(7);
  Store::copy(of, 0, shard.state, emb, wide);
  EXPECT_FLOAT_EQ(emb[7], 0.1F + 4.0F);
  EXPECT_FLOAT_EQ(emb[8], 0.1F);
}

TEST(Store, UpdatesWithoutStateForSgd) {
  const core::Embedding of = embedding(1);
  std::vector<float> rows(21, 1.0F);
  Store store(of, 0, rows, {});
  const std::vector<float> gradient = {1.0F, 2.0F, 3.0F};
  store.update(std::vector<std::int32_t>{0}, gradient.data(),
               {.kind = core::OptimizerKind::Sgd, .learning_rate = 0.5});
  EXPECT_THAT(std::vector<float>(rows.begin(), rows.begin() + 4), ElementsAre(0.5, 0, -0.5, 1));
}

// The same 7 rows on 1, 2 or 3 servers.
TEST(Store, StartsTheSameOnAnyNumberOfServers) {
  const auto start = [](int servers, std::uint64_t seed) {
    std::vector<float> emb(14), wide(7, 1.0F);
    for (int s = 0; s < servers; ++s) {
      const core::Embedding of = embedding(servers);
      Shard shard(of, s);
      shard.store.initialize(seed, kAdaGrad);
      Store::copy(of, s, shard.rows, emb, wide);
    }
    EXPECT_THAT(wide, ::testing::Each(0.0F));
    return emb;
  };
  EXPECT_EQ(start(1, 7), start(2, 7));
  EXPECT_EQ(start(1, 7), start(3, 7));
  EXPECT_NE(start(1, 7), start(1, 8));
}

// Mean 0 and σ: over n = 20,000 values within 5σ/√n and, for the variance, 5σ²·√(2/n).
TEST(Store, StartsWithTheFieldsDeviation) {
  const core::Embedding of = {
      .fields = {{.rows = 10000, .initial_stddev = 0.5}}, .rows = 10000, .dim = 2, .servers = 1};
  std::vector<float> rows(20000);
  Store(of, 0, rows, {}).initialize(3, {.kind = core::OptimizerKind::Sgd});
  double sum = 0.0, squares = 0.0;
  for (const float v : rows) {
    sum += v;
    squares += static_cast<double>(v) * v;
  }
  EXPECT_NEAR(sum / 20000, 0.0, 5 * 0.5 / std::sqrt(20000.0));
  EXPECT_NEAR(squares / 20000, 0.25, 5 * 0.25 * std::sqrt(2.0 / 20000.0));
}

}  // namespace
}  // namespace orrery::engine
