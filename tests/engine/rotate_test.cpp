// Against the oracle's float64 results and, at odd sizes, against a plain twin.

#include "engine/operators/rotate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/engine/operator_oracle.h"

namespace orrery::engine {
namespace {

// The oracle rotates four heads; here they are three query heads and one key head, and the value
// head that follows in each row stays as it is.
TEST(Rotate, AgreesWithTheOracle) {
  const Values x = given("rope.in.x"), expected = given("rope.out");
  const Values dy = given("rope.dout"), dx = given("rope.grad.x");
  const auto rotated = [](const Values& heads, bool inverse) {
    Values qkv(51 * 60, 7.0F);
    for (std::size_t t = 0; t < 51; ++t) {
      std::copy_n(heads.begin() + static_cast<std::ptrdiff_t>(t * 48), 48,
                  qkv.begin() + static_cast<std::ptrdiff_t>(t * 60));
    }
    const core::Rotate op{3, 17, 3, 1, 12, 10000.0, inverse};
    rotate(op, rotation_table(op, 0), qkv.data());
    Values out;
    for (std::size_t t = 0; t < 51; ++t) {
      out.insert(out.end(), qkv.begin() + static_cast<std::ptrdiff_t>(t * 60),
                 qkv.begin() + static_cast<std::ptrdiff_t>(t * 60 + 48));
      for (std::size_t i = 48; i < 60; ++i) EXPECT_EQ(qkv[t * 60 + i], 7.0F);
    }
    return out;
  };
  expect_near(rotated(x, false), expected, 1e-6F);
  expect_near(rotated(dy, true), dx, 1e-6F);
}

}  // namespace
}  // namespace orrery::engine
