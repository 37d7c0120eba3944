// Against the oracle's float64 results and, at odd sizes, against a plain twin.

#include "engine/operators/normalize.h"

#include <gtest/gtest.h>

#include "tests/engine/operator_oracle.h"

namespace orrery::engine {
namespace {

using core::Normalization;

TEST(Normalize, LayerNormAgreesWithTheOracle) {
  const Values x = given("layernorm.in.x"), w = given("layernorm.in.w"),
               b = given("layernorm.in.b"), dy = given("layernorm.dout");
  Values y(24 * 48), statistics(24 * 2), dx(24 * 48), dw(48, 0.0F), db(48, 0.0F);
  normalize({24, 48, Normalization::LayerNorm, 1e-5}, x.data(), w.data(), b.data(), y.data(),
            statistics.data());
  normalize_grad({24, 48, Normalization::LayerNorm, false}, dy.data(), x.data(), w.data(),
                 statistics.data(), dx.data(), dw.data(), db.data());
  expect_near(y, given("layernorm.out"));
  expect_near(dx, given("layernorm.grad.x"));
  expect_near(dw, given("layernorm.grad.w"), 5e-6F);
  expect_near(db, given("layernorm.grad.b"), 5e-6F);
}

TEST(Normalize, RmsNormAgreesWithTheOracle) {
  const Values x = given("rmsnorm.in.x"), w = given("rmsnorm.in.w"), dy = given("rmsnorm.dout");
  Values y(24 * 48), statistics(24), dx(24 * 48, 1.0F), dw(48, 0.0F);
  normalize({24, 48, Normalization::RmsNorm, 1e-5}, x.data(), w.data(), nullptr, y.data(),
            statistics.data());
  normalize_grad({24, 48, Normalization::RmsNorm, true}, dy.data(), x.data(), w.data(),
                 statistics.data(), dx.data(), dw.data(), nullptr);
  for (float& v : dx) v -= 1.0F;  // It accumulated.
  expect_near(y, given("rmsnorm.out"));
  expect_near(dx, given("rmsnorm.grad.x"));
  expect_near(dw, given("rmsnorm.grad.w"), 5e-6F);
}

// dx may take dy's place, as the lowering's residual stream does not but a reader might.
TEST(Normalize, WorksAtOddWidths) {
  for (const std::int64_t width : {1, 3, 17, 31}) {
    const auto n = static_cast<std::size_t>(width);
    const Values x = random_values(n, 4), w = random_values(n, 5), b = random_values(n, 6);
    const Values dy = random_values(n, 7);
    const auto f = [&](const Values& at) {
      Values y(n), statistics(2);
      normalize({1, width, Normalization::LayerNorm, 1e-2}, at.data(), w.data(), b.data(), y.data(),
                statistics.data());
      return dot(y, dy);
    };
    Values y(n), statistics(2), dx(n), dw(n, 0.0F), db(n, 0.0F);
    normalize({1, width, Normalization::LayerNorm, 1e-2}, x.data(), w.data(), b.data(), y.data(),
              statistics.data());
    normalize_grad({1, width, Normalization::LayerNorm, false}, dy.data(), x.data(), w.data(),
                   statistics.data(), dx.data(), dw.data(), db.data());
    expect_gradient(f, x, dx, 3e-3);
  }
}

}  // namespace
}  // namespace orrery::engine
