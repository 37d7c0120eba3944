#include "engine/operators/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace orrery::engine {

namespace {

using core::OptimizerKind;

struct AdamNumbers {
  float beta1, one_minus_beta1, beta2, one_minus_beta2;
  float step_size, root_correction, epsilon;
  float keep;  // 1 − lr·wd of the decoupled decay, or 1.
  float l2;    // wd of the coupled decay, or 0.
  float scale;
};

AdamNumbers adam_numbers(const OptimizerStep& step, bool decoupled) {
  const core::Optimizer& o = step.optimizer;
  const double decay = step.decay ? o.weight_decay : 0.0;
  const double t = static_cast<double>(step.step);
  AdamNumbers n{};
  n.beta1 = static_cast<float>(o.beta1);
  n.one_minus_beta1 = static_cast<float>(1.0 - o.beta1);
  n.beta2 = static_cast<float>(o.beta2);
  n.one_minus_beta2 = static_cast<float>(1.0 - o.beta2);
  n.step_size = static_cast<float>(step.learning_rate / (1.0 - std::pow(o.beta1, t)));
  n.root_correction = static_cast<float>(std::sqrt(1.0 - std::pow(o.beta2, t)));
  n.epsilon = static_cast<float>(o.epsilon);
  n.keep = static_cast<float>(decoupled ? 1.0 - step.learning_rate * decay : 1.0);
  n.l2 = static_cast<float>(decoupled ? 0.0 : decay);
  n.scale = step.gradient_scale;
  return n;
}

void adam(const AdamNumbers n, std::int64_t count, const float* __restrict g, float* __restrict p,
          float* __restrict m, float* __restrict v) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float kept = p[i] * n.keep;
    const float s = g[i] * n.scale + n.l2 * kept;
    m[i] = m[i] * n.beta1 + s * n.one_minus_beta1;
    v[i] = v[i] * n.beta2 + s * s * n.one_minus_beta2;
    const float denominator = std::sqrt(v[i]) / n.root_correction + n.epsilon;
    p[i] = kept - n.step_size * (m[i] / denominator);
  }
}

struct PlainNumbers {
  float learning_rate, l2, scale, epsilon;
};

void ada_grad(const PlainNumbers n, std::int64_t count, const float* __restrict g,
              float* __restrict p, float* __restrict sum) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float s = g[i] * n.scale + n.l2 * p[i];
    sum[i] += s * s;
    p[i] -= n.learning_rate * (s / (std::sqrt(sum[i]) + n.epsilon));
  }
}

void sgd(const PlainNumbers n, std::int64_t count, const float* __restrict g, float* __restrict p) {
  for (std::int64_t i = 0; i < count; ++i) {
    p[i] -= n.learning_rate * (g[i] * n.scale + n.l2 * p[i]);
  }
}

}  // namespace

void optimizer_update(const OptimizerStep& step, std::int64_t count, const float* g, float* p,
                      float* m, float* v) {
  const core::Optimizer& o = step.optimizer;
  const PlainNumbers plain{static_cast<float>(step.learning_rate),
                           static_cast<float>(step.decay ? o.weight_decay : 0.0),
                           step.gradient_scale, static_cast<float>(o.epsilon)};
  switch (o.kind) {
    case OptimizerKind::AdamW:
      adam(adam_numbers(step, true), count, g, p, m, v);
      return;
    case OptimizerKind::Adam:
      adam(adam_numbers(step, false), count, g, p, m, v);
      return;
    case OptimizerKind::AdaGrad:
      ada_grad(plain, count, g, p, m);
      return;
    case OptimizerKind::Sgd:
      sgd(plain, count, g, p);
      return;
  }
}

double squared_norm(std::int64_t count, const float* g) {
  // Eight running sums: one AVX-512 register of doubles; their number fixes the order.
  constexpr std::size_t kSums = 8;
  std::array<double, kSums> sums{};
  const std::int64_t whole = count / static_cast<std::int64_t>(kSums);
  for (std::int64_t b = 0; b < whole; ++b) {
    for (std::size_t l = 0; l < kSums; ++l) {
      const double x = static_cast<double>(
          g[b * static_cast<std::int64_t>(kSums) + static_cast<std::int64_t>(l)]);
      sums[l] += x * x;
    }
  }
  for (std::int64_t i = whole * static_cast<std::int64_t>(kSums); i < count; ++i) {
    sums[0] += static_cast<double>(g[i]) * static_cast<double>(g[i]);
  }
  double total = 0.0;
  for (const double sum : sums) total += sum;
  return total;
}

float clip_factor(double norm, double clip_norm) {
  constexpr double kTorchEpsilon = 1e-6;
  return static_cast<float>(std::min(1.0, clip_norm / (norm + kTorchEpsilon)));
}

}  // namespace orrery::engine
