// Against the oracle's float64 results and, at odd sizes, against a plain twin.

#include "engine/operators/optimizer.h"

#include <gtest/gtest.h>

#include "tests/engine/operator_oracle.h"

namespace orrery::engine {
namespace {

void expect_optimizer(const std::string& name, const core::Optimizer& optimizer) {
  Values p = given(name + ".p0"), m(64, 0.0F), v(64, 0.0F), after;
  const Values gradients = given(name + ".grads");
  for (int s = 0; s < 3; ++s) {
    OptimizerStep step;
    step.optimizer = optimizer;
    step.learning_rate = optimizer.learning_rate;
    step.step = s + 1;
    step.decay = optimizer.weight_decay > 0.0;
    optimizer_update(step, 64, gradients.data() + 64 * s, p.data(), m.data(), v.data());
    after.insert(after.end(), p.begin(), p.end());
  }
  expect_near(after, given(name + ".p"), 1e-6F);
}

TEST(OptimizerUpdate, AdamWAgreesWithTheOracle) {
  core::Optimizer o;
  o.learning_rate = 1e-2;
  o.weight_decay = 0.1;
  expect_optimizer("adamw", o);
}
TEST(OptimizerUpdate, AdamAgreesWithTheOracle) {
  core::Optimizer o;
  o.kind = core::OptimizerKind::Adam;
  o.learning_rate = 1e-2;
  expect_optimizer("adam", o);
}
TEST(OptimizerUpdate, AdaGradAgreesWithTheOracle) {
  core::Optimizer o;
  o.kind = core::OptimizerKind::AdaGrad;
  o.learning_rate = 1e-2;
  o.epsilon = 1e-10;
  expect_optimizer("adagrad", o);
}

// p ← p − lr·(c·g + wd·p): the clip factor c scales the gradient, the decay does not.
TEST(OptimizerUpdate, SgdScalesTheGradientNotTheDecay) {
  OptimizerStep step;
  step.optimizer.kind = core::OptimizerKind::Sgd;
  step.optimizer.weight_decay = 0.5;
  step.learning_rate = 0.1;
  step.gradient_scale = 0.25F;
  step.decay = true;
  const float g = 8.0F;
  float p = 2.0F;
  optimizer_update(step, 1, &g, &p, nullptr, nullptr);
  EXPECT_FLOAT_EQ(p, 2.0F - 0.1F * (0.25F * 8.0F + 0.5F * 2.0F));
}

TEST(SquaredNorm, IsExactInDoubleAtAnyLength) {
  for (std::size_t n : {0, 1, 7, 8, 9, 1000}) {
    const Values g = random_values(n, 13);
    EXPECT_NEAR(squared_norm(static_cast<std::int64_t>(n), g.data()), dot(g, g), 1e-9);
  }
}

TEST(ClipFactor, IsTorchs) {
  EXPECT_EQ(clip_factor(0.5, 1.0), 1.0F);
  EXPECT_FLOAT_EQ(clip_factor(2.0, 1.0), static_cast<float>(1.0 / (2.0 + 1e-6)));
}

}  // namespace
}  // namespace orrery::engine
