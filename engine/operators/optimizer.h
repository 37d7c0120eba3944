#pragma once
// Optimizer steps over flat ranges of parameters, and the norm of the gradients.

#include <cstdint>

#include "core/job.h"

namespace orrery::engine {

/// One step's numbers. `step` counts from 1.
struct OptimizerStep {
  core::Optimizer optimizer;
  double learning_rate = 0.0;
  std::int64_t step = 1;
  float gradient_scale = 1.0F;  ///< Clip factor: multiplies every gradient.
  bool decay = false;           ///< Whether these elements decay.
};

/// Updates `count` parameters p with gradients g. With s the scaled gradient:
///   AdamW    p ← p(1 − lr·wd); m ← β₁m + (1−β₁)s; v ← β₂v + (1−β₂)s²;
///            p ← p − lr/(1−β₁ᵗ) · m/(√v/√(1−β₂ᵗ) + ε)
///   Adam     s ← s + wd·p, then as AdamW without its decay
///   AdaGrad  s ← s + wd·p; m ← m + s²; p ← p − lr·s/(√m + ε)
///   Sgd      s ← s + wd·p; p ← p − lr·s
/// m: first state, v: second (null where the optimizer has none). Source: torch.optim 1.13.
void optimizer_update(const OptimizerStep&, std::int64_t count, const float* g, float* p, float* m,
                      float* v);

/// Σ g² in double.
double squared_norm(std::int64_t count, const float* g);

/// min(1, clip/(norm + 1e-6)); the 1e-6 is torch.nn.utils.clip_grad_norm_'s.
float clip_factor(double norm, double clip_norm);

}  // namespace orrery::engine
