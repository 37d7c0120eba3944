#include "engine/operators/keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace orrery::engine {
namespace {

using ::testing::ElementsAre;

TEST(UniqueKeys, AreAscendingAndFoundByEachLookup) {
  const std::vector<std::int32_t> ids = {7, 3, 7, 0, 3, 7};
  std::vector<std::int32_t> keys(6), inverse(6);
  EXPECT_EQ(unique_keys({6}, ids.data(), keys.data(), inverse.data()), 3);
  keys.resize(3);
  EXPECT_THAT(keys, ElementsAre(0, 3, 7));
  EXPECT_THAT(inverse, ElementsAre(2, 1, 2, 0, 1, 2));
}

TEST(UniqueKeys, AgreeWithASet) {
  std::mt19937 random(5);
  std::vector<std::int32_t> ids(1000);
  for (auto& id : ids) id = static_cast<std::int32_t>(random() % 300);
  std::vector<std::int32_t> keys(ids.size()), inverse(ids.size());
  const auto count = unique_keys({1000}, ids.data(), keys.data(), inverse.data());
  const std::set<std::int32_t> expected(ids.begin(), ids.end());
  ASSERT_EQ(static_cast<std::size_t>(count), expected.size());
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), keys.begin()));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(keys[static_cast<std::size_t>(inverse[i])], ids[i]);
  }
}

// Rows 0 = (1, 2), 1 = (3, 4); lookups 1, 0, 1.
TEST(GatherRows, CopiesEachLookupsRow) {
  const std::vector<float> rows = {1, 2, 3, 4};
  const std::vector<std::int32_t> inverse = {1, 0, 1};
  std::vector<float> out(6);
  gather_rows({3, 2}, rows.data(), inverse.data(), out.data());
  EXPECT_THAT(out, ElementsAre(3, 4, 1, 2, 3, 4));
}

// grads[1] = (1, 2) + (5, 6), grads[0] = (3, 4); rows beyond `count` are left alone.
TEST(SumRowGrads, AddsTheLookupsOfEachRow) {
  const std::vector<float> dout = {1, 2, 3, 4, 5, 6};
  const std::vector<std::int32_t> inverse = {1, 0, 1};
  std::vector<float> grads(6, 9.0F);
  sum_row_grads({3, 2}, dout.data(), inverse.data(), 2, grads.data());
  EXPECT_THAT(grads, ElementsAre(3, 4, 6, 8, 9, 9));
}

}  // namespace
}  // namespace orrery::engine
