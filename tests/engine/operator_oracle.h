#pragma once
// What the tests of operators share: the oracle's tensors, comparisons with a stated bound, and
// numerical gradients.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "engine/safetensors.h"
#include "tests/engine/parity_fixture.h"

namespace orrery::engine {

using Values = std::vector<float>;

inline const SafetensorsFile& oracle() {
  static const SafetensorsFile file(fixture("ops.safetensors"));
  return file;
}

inline Values given(const std::string& name) {
  const auto values = oracle().floats(name);
  return {values.begin(), values.end()};
}

inline std::vector<std::int32_t> given_ints(const std::string& name) {
  const auto values = oracle().ints(name);
  return {values.begin(), values.end()};
}

// |found − expected| ≤ bound·max(1, |expected|): the oracle's values are of order 1, and a float32
// sum of 48 terms of order 1 is off by about √48·6e-8.
inline void expect_near(const Values& found, const Values& expected, float bound = 2e-6F) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const float scale = std::max(1.0F, std::abs(expected[i]));
    ASSERT_NEAR(found[i], expected[i], bound * scale) << "element " << i;
  }
}

inline Values random_values(std::size_t count, unsigned seed, float stddev = 1.0F) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, stddev);
  Values values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// dx[i] against (f(x + h·e_i) − f(x − h·e_i)) / 2h of a scalar function in double.
inline void expect_gradient(const std::function<double(const Values&)>& f, const Values& x,
                            const Values& dx, double bound) {
  constexpr float kStep = 1e-2F;
  for (std::size_t i = 0; i < x.size(); ++i) {
    Values up = x;
    Values down = x;
    up[i] += kStep;
    down[i] -= kStep;
    const double numeric = (f(up) - f(down)) / static_cast<double>(up[i] - down[i]);
    ASSERT_NEAR(static_cast<double>(dx[i]), numeric, bound) << "element " << i;
  }
}

inline double dot(const Values& a, const Values& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  return sum;
}

}  // namespace orrery::engine
