// Vectorised functions against the standard library's in double.

#include "engine/operators/vector_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/engine/operator_oracle.h"

namespace orrery::engine {
namespace {

// The bounds that vector_math.h states, over the whole range.
TEST(VectorMath, ExpIsWithinItsBound) {
  double worst = 0.0;
  for (double x = -87.3; x <= 88.3; x += 0.00137) {
    const float v = static_cast<float>(x);
    const double exact = std::exp(static_cast<double>(v));
    worst = std::max(worst, std::abs(static_cast<double>(exp_float(v)) - exact) / exact);
  }
  EXPECT_LE(worst, 2.5e-7);
  EXPECT_EQ(exp_float(-1000.0F), 0.0F);
  EXPECT_EQ(exp_float(-std::numeric_limits<float>::infinity()), 0.0F);
  EXPECT_GT(exp_float(1000.0F), 2e38F);
  EXPECT_EQ(exp_float(0.0F), 1.0F);
}

TEST(VectorMath, LogisticIsWithinItsBound) {
  double worst = 0.0;
  for (double x = -80.0; x <= 80.0; x += 0.00091) {
    const float v = static_cast<float>(x);
    const double exact = 1.0 / (1.0 + std::exp(-static_cast<double>(v)));
    worst = std::max(worst, std::abs(static_cast<double>(logistic(v)) - exact) / exact);
  }
  EXPECT_LE(worst, 5e-7);
}

TEST(VectorMath, SumsAndMaximaOfAnyLength) {
  for (std::int64_t n = 0; n < 70; ++n) {
    const Values x = random_values(static_cast<std::size_t>(n), static_cast<unsigned>(n));
    double sum = 0.0;
    float largest = -5.0F;
    for (const float v : x) {
      sum += static_cast<double>(v);
      largest = std::max(largest, v);
    }
    EXPECT_NEAR(static_cast<double>(
                    lane_sum(n, [&](std::int64_t i) { return x[static_cast<std::size_t>(i)]; })),
                sum, 1e-5);
    EXPECT_EQ(lane_max(x.data(), n, -5.0F), largest);
  }
}

}  // namespace
}  // namespace orrery::engine
