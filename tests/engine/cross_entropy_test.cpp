// Against the oracle's float64 results and, at odd sizes, against a plain twin.

#include "engine/operators/cross_entropy.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/engine/operator_oracle.h"

namespace orrery::engine {
namespace {

TEST(CrossEntropy, AgreesWithTheOracle) {
  Values logits = given("cross_entropy_mean.in.logits");
  const std::vector<std::int32_t> targets = given_ints("cross_entropy_mean.in.target");
  Values statistics(24 * 3);
  cross_entropy_statistics({24, 40, 40, 1}, 0, logits.data(), targets.data(), statistics.data());
  const double loss = cross_entropy_grad({24, 40, 40, 1, 1.0 / 24}, 0, statistics.data(),
                                         targets.data(), logits.data());
  EXPECT_NEAR(loss, static_cast<double>(given("cross_entropy_mean.out")[0]), 1e-6);
  expect_near(logits, given("cross_entropy_mean.grad.logits"), 1e-7F);
}

// The vocabulary of 40 over three ranks of 14 rows, the last two of them padding: the same
// gradient, nothing in the padding, and the parts' loss is the whole loss.
TEST(CrossEntropy, PartsOfTheVocabularyGiveTheWhole) {
  const Values logits = given("cross_entropy_mean.in.logits");
  const Values expected = given("cross_entropy_mean.grad.logits");
  const std::vector<std::int32_t> targets = given_ints("cross_entropy_mean.in.target");
  Values statistics(3 * 24 * 3);
  std::vector<Values> parts;
  for (std::int64_t p = 0; p < 3; ++p) {
    Values part(24 * 14, 1e9F);
    for (std::int64_t r = 0; r < 24; ++r) {
      for (std::int64_t j = 0; j < 14 && p * 14 + j < 40; ++j) {
        part[static_cast<std::size_t>(r * 14 + j)] =
            logits[static_cast<std::size_t>(r * 40 + p * 14 + j)];
      }
    }
    cross_entropy_statistics({24, 14, 40, 3}, p * 14, part.data(), targets.data(),
                             statistics.data() + p * 24 * 3);
    parts.push_back(part);
  }
  for (std::int64_t p = 0; p < 3; ++p) {
    Values& part = parts[static_cast<std::size_t>(p)];
    const double loss = cross_entropy_grad({24, 14, 40, 3, 1.0 / 24}, p * 14, statistics.data(),
                                           targets.data(), part.data());
    EXPECT_NEAR(loss, static_cast<double>(given("cross_entropy_mean.out")[0]), 1e-6);
    for (std::int64_t r = 0; r < 24; ++r) {
      for (std::int64_t j = 0; j < 14; ++j) {
        const float found = part[static_cast<std::size_t>(r * 14 + j)];
        const std::int64_t column = p * 14 + j;
        const float wanted =
            column < 40 ? expected[static_cast<std::size_t>(r * 40 + column)] : 0.0F;
        ASSERT_NEAR(found, wanted, 1e-7F) << "part " << p << " row " << r << " column " << j;
      }
    }
  }
}

TEST(CrossEntropy, IgnoredTargetsGiveNothing) {
  Values logits = random_values(2 * 5, 12);
  const std::vector<std::int32_t> targets = {-100, 3};
  Values statistics(2 * 3);
  cross_entropy_statistics({2, 5, 5, 1}, 0, logits.data(), targets.data(), statistics.data());
  const double lse =
      static_cast<double>(statistics[3]) + std::log(static_cast<double>(statistics[4]));
  const double expected = lse - static_cast<double>(logits[5 + 3]);
  const double loss =
      cross_entropy_grad({2, 5, 5, 1, 1.0}, 0, statistics.data(), targets.data(), logits.data());
  EXPECT_NEAR(loss, expected, 1e-6);
  for (std::size_t j = 0; j < 5; ++j) EXPECT_EQ(logits[j], 0.0F);
}

}  // namespace
}  // namespace orrery::engine
