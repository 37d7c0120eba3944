#include "engine/operators/pushed_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "core/error.h"

namespace orrery::engine {
namespace {

using ::testing::ElementsAre;

struct Sums {
  explicit Sums(std::size_t capacity, std::size_t entries)
      : keys(capacity), sums(capacity * 2), index(entries) {}
  PushedRows rows() { return {keys, sums, &count, index, 2}; }

  std::vector<std::int32_t> keys;
  std::vector<float> sums;
  std::int32_t count = 0;
  std::vector<std::int32_t> index;
};

TEST(SumPushedRows, AddsEqualKeysInTheOrderOfThePushes) {
  Sums sums(4, 8);
  // In float32 (1e8 + 1) − 1e8 = 0, (1e8 − 1e8) + 1 = 1: the order shows.
  sum_pushed_rows(sums.rows(), std::vector<std::int32_t>{5, 9},
                  std::vector<float>{1e8F, 1, 7, 7}.data());
  sum_pushed_rows(sums.rows(), std::vector<std::int32_t>{5}, std::vector<float>{1.0F, 2}.data());
  sum_pushed_rows(sums.rows(), std::vector<std::int32_t>{2, 5},
                  std::vector<float>{3, 3, -1e8F, 3}.data());
  EXPECT_EQ(sums.count, 3);
  EXPECT_THAT(std::vector<std::int32_t>(sums.keys.begin(), sums.keys.begin() + 3),
              ElementsAre(5, 9, 2));
  EXPECT_THAT(std::vector<float>(sums.sums.begin(), sums.sums.begin() + 6),
              ElementsAre(0, 6, 7, 7, 3, 3));
}

// A full table of 2·capacity entries, keys as a server of 3 sees them.
TEST(SumPushedRows, AgreesWithAMap) {
  std::mt19937 random(2);
  Sums sums(64, 128);
  std::map<std::int32_t, double> expected;
  for (int push = 0; push < 50; ++push) {
    std::vector<std::int32_t> keys;
    std::vector<float> gradients;
    for (int i = 0; i < 20; ++i) {
      keys.push_back(static_cast<std::int32_t>(random() % 64 * 3 + 1));
      gradients.push_back(static_cast<float>(random() % 10));
      gradients.push_back(1.0F);
      expected[keys.back()] += gradients[gradients.size() - 2];
    }
    sum_pushed_rows(sums.rows(), keys, gradients.data());
  }
  ASSERT_EQ(static_cast<std::size_t>(sums.count), expected.size());
  for (std::size_t slot = 0; slot < expected.size(); ++slot) {
    EXPECT_EQ(sums.sums[2 * slot], expected.at(sums.keys[slot]));
  }
}

TEST(SumPushedRows, RefusesMoreKeysThanItHasRoomFor) {
  Sums sums(2, 4);
  const std::vector<float> gradients(6, 1.0F);
  EXPECT_THROW(sum_pushed_rows(sums.rows(), std::vector<std::int32_t>{1, 2, 3}, gradients.data()),
               core::SystemError);
}

}  // namespace
}  // namespace orrery::engine
