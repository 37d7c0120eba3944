#include "engine/operators/interaction.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "core/error.h"

namespace orrery::engine {
namespace {

constexpr std::int64_t kSamples = 3;
constexpr int kDense = 4, kLookups = 5, kDim = 3;

std::vector<float> random_floats(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& v : values) v = normal(random);
  return values;
}

/// One evaluation of the interaction on random inputs.
struct Case {
  explicit Case(bool with_wide, core::Interaction with_kind)
      : wide(with_wide), kind(with_kind), width(kDim + (with_wide ? 1 : 0)) {
    embedded = random_floats(kSamples * kLookups * static_cast<std::size_t>(width), 1);
    dense = random_floats(kSamples * kDense, 2);
    bias = {0.25F};
    wide_dense = random_floats(kDense, 3);
  }

  void forward() {
    input.assign(kSamples * (kDense + kLookups * kDim), 0.0F);
    shallow.assign(kSamples, 0.0F);
    interact({kSamples, kDense, kLookups, kDim, wide, kind}, embedded.data(), dense.data(),
             bias.data(), wide ? wide_dense.data() : nullptr, input.data(), shallow.data());
  }

  float e(std::int64_t s, int f, int d) const {
    return embedded[static_cast<std::size_t>((s * kLookups + f) * width + d)];
  }

  bool wide;
  core::Interaction kind;
  int width;
  std::vector<float> embedded, dense, bias, wide_dense, input, shallow;
};

// The definition: bias + Σ_f w_f + Σ_k v_k·x_k + Σ_{f<g} e_f·e_g, since
// Σ_{f<g} e_f·e_g = ½ ((Σ e)² − Σ e²).
double shallow_by_definition(const Case& c, std::int64_t s) {
  double logit = c.bias[0];
  for (int f = 0; c.wide && f < kLookups; ++f) logit += c.e(s, f, kDim);
  for (int k = 0; c.wide && k < kDense; ++k) {
    logit += static_cast<double>(c.wide_dense[static_cast<std::size_t>(k)]) *
             c.dense[static_cast<std::size_t>(s * kDense + k)];
  }
  if (c.kind == core::Interaction::None) return logit;
  for (int f = 0; f < kLookups; ++f) {
    for (int g = f + 1; g < kLookups; ++g) {
      for (int d = 0; d < kDim; ++d) logit += static_cast<double>(c.e(s, f, d)) * c.e(s, g, d);
    }
  }
  return logit;
}

class EveryInteraction : public ::testing::TestWithParam<std::tuple<bool, core::Interaction>> {};

TEST_P(EveryInteraction, IsTheSumOfItsParts) {
  Case c(std::get<0>(GetParam()), std::get<1>(GetParam()));
  c.forward();
  for (std::int64_t s = 0; s < kSamples; ++s) {
    EXPECT_NEAR(c.shallow[static_cast<std::size_t>(s)], shallow_by_definition(c, s), 1e-5);
    const float* input = c.input.data() + s * (kDense + kLookups * kDim);
    for (int k = 0; k < kDense; ++k)
      EXPECT_EQ(input[k], c.dense[static_cast<std::size_t>(s * kDense + k)]);
    for (int f = 0; f < kLookups; ++f) {
      for (int d = 0; d < kDim; ++d) EXPECT_EQ(input[kDense + f * kDim + d], c.e(s, f, d));
    }
  }
}

// L = Σ_s a_s·shallow_s + Σ b·mlp_input for random a and b; its gradients by central differences
// (h = 1e-2: the function is quadratic, so only rounding counts).
TEST_P(EveryInteraction, HasTheGradientOfItsOutputs) {
  Case c(std::get<0>(GetParam()), std::get<1>(GetParam()));
  const std::vector<float> a = random_floats(kSamples, 4);
  const std::vector<float> b = random_floats(kSamples * (kDense + kLookups * kDim), 5);
  const auto value = [&] {
    c.forward();
    double sum = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * c.shallow[i];
    for (std::size_t i = 0; i < b.size(); ++i) sum += static_cast<double>(b[i]) * c.input[i];
    return sum;
  };
  std::vector<float> dembedded(c.embedded.size()), dbias(1, 1.0F), dwide(kDense, 1.0F);
  interact_grad({kSamples, kDense, kLookups, kDim, c.wide, c.kind}, a.data(), b.data(),
                c.embedded.data(), c.dense.data(), dembedded.data(), dbias.data(),
                c.wide ? dwide.data() : nullptr);
  const auto expect_gradient = [&](std::vector<float>& at, const std::vector<float>& gradient,
                                   float before) {
    for (std::size_t i = 0; i < at.size(); ++i) {
      const float kept = at[i];
      const float h = 1e-2F;
      at[i] = kept + h;
      const double up = value();
      at[i] = kept - h;
      const double down = value();
      at[i] = kept;
      EXPECT_NEAR(gradient[i] - before, (up - down) / (2.0 * static_cast<double>(h)), 1e-3);
    }
  };
  expect_gradient(c.embedded, dembedded, 0.0F);
  expect_gradient(c.bias, dbias, 1.0F);  // Accumulated into what was there.
  if (c.wide) expect_gradient(c.wide_dense, dwide, 1.0F);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, EveryInteraction,
    ::testing::Combine(::testing::Bool(),
                       ::testing::Values(core::Interaction::None,
                                         core::Interaction::FactorizationMachine)));

TEST(Interaction, RefusesDot) {
  Case c(true, core::Interaction::Dot);
  EXPECT_THROW(c.forward(), core::SystemError);
}

// z = 0: log 2 whatever the label, and dlogit = scale·(½ − label).
TEST(LogisticLoss, OfAnUndecidedModelIsLog2) {
  const std::vector<float> shallow = {1.0F, -2.0F}, deep = {-1.0F, 2.0F}, labels = {1.0F, 0.0F};
  std::vector<float> dlogit(2);
  const float loss =
      logistic_loss({2, 0.5}, shallow.data(), deep.data(), labels.data(), dlogit.data());
  EXPECT_FLOAT_EQ(loss, std::log(2.0F));
  EXPECT_FLOAT_EQ(dlogit[0], -0.25F);
  EXPECT_FLOAT_EQ(dlogit[1], 0.25F);
}

// z = ±100: the loss is 100 or e^−100, not infinite.
TEST(LogisticLoss, StaysFiniteFarOut) {
  const std::vector<float> shallow = {100.0F, -100.0F, 100.0F}, deep = {0.0F, 0.0F, 0.0F};
  const std::vector<float> labels = {0.0F, 0.0F, 1.0F};
  std::vector<float> dlogit(3);
  const float loss =
      logistic_loss({3, 1.0}, shallow.data(), deep.data(), labels.data(), dlogit.data());
  EXPECT_FLOAT_EQ(loss, 100.0F);
  EXPECT_FLOAT_EQ(dlogit[0], 1.0F);
  EXPECT_NEAR(dlogit[1], 0.0, 1e-30);
}

}  // namespace
}  // namespace orrery::engine
