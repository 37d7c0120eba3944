// Against the oracle's float64 results and, at odd sizes, against a plain twin.

#include "engine/operators/linear.h"

#include <gtest/gtest.h>

#include <tuple>

#include "tests/engine/operator_oracle.h"

namespace orrery::engine {
namespace {

TEST(Linear, AgreesWithTheOracle) {
  const Values x = given("linear.in.x"), w = given("linear.in.w"), b = given("linear.in.b");
  const Values dy = given("linear.dout");
  Values y(24 * 36), dx(24 * 48), dw(36 * 48, 0.0F), db(36, 0.0F);
  linear({24, 36, 48, true}, x.data(), w.data(), b.data(), y.data());
  linear_input_grad({24, 36, 48, false}, dy.data(), w.data(), dx.data());
  linear_weight_grad({24, 36, 48, true}, dy.data(), x.data(), dw.data(), db.data());
  expect_near(y, given("linear.out"));
  expect_near(dx, given("linear.grad.x"));
  expect_near(dw, given("linear.grad.w"), 5e-6F);
  expect_near(db, given("linear.grad.b"), 5e-6F);
}

TEST(Linear, GradientsAccumulate) {
  const Values x = given("linear.in.x"), w = given("linear.in.w"), dy = given("linear.dout");
  Values dx(24 * 48, 1.0F), dw(36 * 48, 2.0F), db(36, 3.0F);
  linear_input_grad({24, 36, 48, true}, dy.data(), w.data(), dx.data());
  linear_weight_grad({24, 36, 48, true}, dy.data(), x.data(), dw.data(), db.data());
  Values expected_dx = given("linear.grad.x"), expected_dw = given("linear.grad.w"),
         expected_db = given("linear.grad.b");
  for (float& v : expected_dx) v += 1.0F;
  for (float& v : expected_dw) v += 2.0F;
  for (float& v : expected_db) v += 3.0F;
  expect_near(dx, expected_dx);
  expect_near(dw, expected_dw, 5e-6F);
  expect_near(db, expected_db, 5e-6F);
}

// y = Σ_k x·w in double, at sizes that no block of a matrix library divides.
TEST(Linear, AgreesWithItsPlainTwinAtOddSizes) {
  for (const auto& [rows, out, in] :
       {std::tuple{1, 1, 1}, std::tuple{3, 5, 7}, std::tuple{33, 17, 65}, std::tuple{1, 129, 31}}) {
    const auto size = [](int a, int b) { return static_cast<std::size_t>(a * b); };
    const Values x = random_values(size(rows, in), 1), w = random_values(size(out, in), 2);
    Values y(size(rows, out)), expected(size(rows, out));
    linear({rows, out, in, false}, x.data(), w.data(), nullptr, y.data());
    for (int r = 0; r < rows; ++r) {
      for (int o = 0; o < out; ++o) {
        double sum = 0.0;
        for (int k = 0; k < in; ++k) {
          sum += static_cast<double>(x[size(r, in) + static_cast<std::size_t>(k)]) *
                 static_cast<double>(w[size(o, in) + static_cast<std::size_t>(k)]);
        }
        expected[size(r, out) + static_cast<std::size_t>(o)] = static_cast<float>(sum);
      }
    }
    expect_near(y, expected, 5e-6F);
  }
}

// dbias = Σ_rows dy over more rows and columns than one block of the sum. The running sum of 1003
// normal values reaches about √1003 = 32; each of the 63 roundings on the way is off by at most
// 32·6e-8, together by about √63·2e-6 = 1.5e-5.
TEST(BiasGrad, AddsManyRows) {
  constexpr int kRows = 1003, kWidth = 517;
  const Values dy = random_values(kRows * kWidth, 3);
  Values db(kWidth, 0.0F), expected(kWidth);
  bias_grad({kRows, kWidth}, dy.data(), db.data());
  for (std::size_t j = 0; j < kWidth; ++j) {
    double sum = 0.0;
    for (std::size_t r = 0; r < kRows; ++r) sum += static_cast<double>(dy[r * kWidth + j]);
    expected[j] = static_cast<float>(sum);
  }
  expect_near(db, expected, 1.5e-5F);
}

}  // namespace
}  // namespace orrery::engine
