#pragma once
// Activation functions and the residual sum.

#include "core/operator.h"

namespace orrery::engine {

/// y[rows,width] = f(x). GeluTanh: ½x(1 + tanh u), u = √(2/π)(x + 0.044715x³), which is x·σ(2u);
/// GeluErf: ½x(1 + erf(x/√2)); Relu: max(x, 0); SwiGlu: x[rows, 2·width] = [gate ; up] per row,
/// y = gate·σ(gate)·up.
void activate(const core::Activate&, const float* x, float* y);
/// dx = dy·f'(x), shaped like x. dx may be dy (not for SwiGlu).
void activate_grad(const core::ActivateGrad&, const float* dy, const float* x, float* dx);

/// y = a + b (+ bias[width] per row; may be null). y may be a or b.
void add(const core::Add&, const float* a, const float* b, const float* bias, float* y);

}  // namespace orrery::engine
