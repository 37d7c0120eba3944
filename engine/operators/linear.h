#pragma once
// Linear layers: y = x·wᵀ + bias and its gradients.

#include "core/operator.h"

namespace orrery::engine {

/// y[rows,out] = x[rows,in] · w[out,in]ᵀ (+ bias[out]; may be null).
void linear(const core::Linear&, const float* x, const float* w, const float* bias, float* y);
/// dx[rows,in] = (or +=) dy[rows,out] · w[out,in].
void linear_input_grad(const core::LinearInputGrad&, const float* dy, const float* w, float* dx);
/// dw[out,in] += dyᵀ · x; dbias[out] += Σ_rows dy (may be null).
void linear_weight_grad(const core::LinearWeightGrad&, const float* dy, const float* x, float* dw,
                        float* dbias);
/// dbias[width] += Σ_rows dy.
void bias_grad(const core::BiasGrad&, const float* dy, float* dbias);

}  // namespace orrery::engine
