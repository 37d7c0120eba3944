#include "core/network/unique_keys.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>
#include <vector>

namespace orrery::core {
namespace {

// Σ_i 1 − (1 − p_i)^L, term by term.
double full_sum(std::int64_t rows, double s, double lookups) {
  double total = 0.0;
  for (std::int64_t i = 1; i <= rows; ++i) total += std::pow(static_cast<double>(i), -s);
  double unique = 0.0;
  for (std::int64_t i = 1; i <= rows; ++i) {
    const double p = std::pow(static_cast<double>(i), -s) / total;
    unique += 1.0 - std::pow(1.0 - p, lookups);
  }
  return unique;
}

TEST(ExpectedUniqueKeys, EqualsTheFullSum) {
  for (const double s : {0.0, 0.5, 0.9, 1.0, 1.05, 1.2}) {
    for (const std::int64_t rows : {1, 7, 1000, 50'000, 1'000'000}) {
      for (const double lookups : {1.0, 100.0, 1e5, 1e7}) {
        const double expected = full_sum(rows, s, lookups);
        EXPECT_NEAR(expected_unique_keys(rows, s, lookups) / expected, 1.0, 1e-4)
            << s << " " << rows << " " << lookups;
      }
    }
  }
}

// Without skew: U = R·(1 − (1 − 1/R)^L).
TEST(ExpectedUniqueKeys, UniformIdsFollowTheCouponFormula) {
  const double rows = 1e6;
  const double lookups = 5e5;
  const double expected = rows * (1.0 - std::pow(1.0 - 1.0 / rows, lookups));
  EXPECT_NEAR(expected_unique_keys(1'000'000, 0.0, lookups) / expected, 1.0, 1e-9);
}

TEST(ExpectedUniqueKeys, OneLookupTouchesOneRow) {
  EXPECT_NEAR(expected_unique_keys(123'456'789, 1.05, 1.0), 1.0, 1e-9);
}

// Published for 10^7 rows: U/L of 0.660 (s 0.9) and 0.371 (s 1.05) at L = 106,000.
TEST(ExpectedUniqueKeys, TenMillionRowsAgreeWithMeasuredShares) {
  EXPECT_NEAR(expected_unique_keys(10'000'000, 0.9, 106e3) / 106e3, 0.660, 0.003);
  EXPECT_NEAR(expected_unique_keys(10'000'000, 1.05, 106e3) / 106e3, 0.371, 0.003);
}

// 200 batches of 500 draws from 2,000 rows; the mean's standard error is below 0.5 rows.
TEST(ExpectedUniqueKeys, AgreesWithDraws) {
  std::vector<double> weights;
  for (int i = 1; i <= 2000; ++i) weights.push_back(std::pow(i, -1.1));
  std::mt19937_64 random(7);
  std::discrete_distribution<int> draw(weights.begin(), weights.end());
  double sum = 0.0;
  for (int batch = 0; batch < 200; ++batch) {
    std::set<int> seen;
    for (int i = 0; i < 500; ++i) seen.insert(draw(random));
    sum += static_cast<double>(seen.size());
  }
  EXPECT_NEAR(sum / 200, expected_unique_keys(2000, 1.1, 500), 2.5);
}

// Tables add; 3 fields that share 51 rows have 17 each.
TEST(ExpectedUniqueKeys, TablesAdd) {
  ClickThrough model;
  model.tables = {
      {.name = "a", .rows = 1000, .dim = 8, .lookups_per_sample = 1, .zipf_exponent = 1.0},
      {.name = "b", .rows = 51, .dim = 8, .lookups_per_sample = 3, .zipf_exponent = 0.0}};
  EXPECT_DOUBLE_EQ(expected_unique_keys(model, 64.0),
                   expected_unique_keys(1000, 1.0, 64.0) + 3 * expected_unique_keys(17, 0.0, 64.0));
}

}  // namespace
}  // namespace orrery::core
