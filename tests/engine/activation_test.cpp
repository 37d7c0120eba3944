// Against the oracle's float64 results and, at odd sizes, against a plain twin.

#include "engine/operators/activation.h"

#include <gtest/gtest.h>

#include "tests/engine/operator_oracle.h"

namespace orrery::engine {
namespace {

using core::ActivationKind;

void expect_activation(const std::string& name, ActivationKind kind) {
  const Values x = given(name + ".in.x"), dy = given(name + ".dout");
  Values y(x.size()), dx(x.size());
  activate({24, 48, kind}, x.data(), y.data());
  activate_grad({24, 48, kind}, dy.data(), x.data(), dx.data());
  expect_near(y, given(name + ".out"), 1e-6F);
  expect_near(dx, given(name + ".grad.x"), 1e-6F);
}

TEST(Activate, GeluTanhAgreesWithTheOracle) {
  expect_activation("gelu_tanh", ActivationKind::GeluTanh);
}
TEST(Activate, GeluErfAgreesWithTheOracle) {
  expect_activation("gelu_erf", ActivationKind::GeluErf);
}
TEST(Activate, ReluAgreesWithTheOracle) { expect_activation("relu", ActivationKind::Relu); }

// Rows are [gate ; up].
TEST(Activate, SwiGluAgreesWithTheOracle) {
  const Values gate = given("swiglu.in.a"), up = given("swiglu.in.b"), dy = given("swiglu.dout");
  const Values dgate = given("swiglu.grad.a"), dup = given("swiglu.grad.b");
  Values x, expected;
  for (std::size_t r = 0; r < 24; ++r) {
    const auto append = [&](Values& to, const Values& from) {
      to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(48 * r),
                from.begin() + static_cast<std::ptrdiff_t>(48 * (r + 1)));
    };
    append(x, gate);
    append(x, up);
    append(expected, dgate);
    append(expected, dup);
  }
  Values y(24 * 48), dx(24 * 96);
  activate({24, 48, ActivationKind::SwiGlu}, x.data(), y.data());
  activate_grad({24, 48, ActivationKind::SwiGlu}, dy.data(), x.data(), dx.data());
  expect_near(y, given("swiglu.out"), 1e-6F);
  expect_near(dx, expected, 1e-6F);
}

TEST(Add, AddsAndMayBeInPlace) {
  Values a = given("residual.in.a");
  const Values b = given("residual.in.b");
  add({24, 48, false}, a.data(), b.data(), nullptr, a.data());
  expect_near(a, given("residual.out"), 1e-7F);
  const Values bias = random_values(48, 8);
  Values with_bias(24 * 48), zero(24 * 48, 0.0F);
  add({24, 48, true}, zero.data(), zero.data(), bias.data(), with_bias.data());
  for (std::size_t i = 0; i < with_bias.size(); ++i) ASSERT_EQ(with_bias[i], bias[i % 48]);
}

}  // namespace
}  // namespace orrery::engine
