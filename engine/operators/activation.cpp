#include "engine/operators/activation.h"

#include <cmath>
#include <numbers>

#include "engine/operators/vector_math.h"

namespace orrery::engine {

namespace {

using core::ActivationKind;

constexpr float kGeluSlope = 0.7978845608F;  // √(2/π)
constexpr float kGeluCubic = 0.044715F;      // Hendrycks, Gimpel, arXiv:1606.08415.

float gelu_tanh(float x) {
  const float u = kGeluSlope * (x + kGeluCubic * x * x * x);
  return x * logistic(2.0F * u);
}

// d/dx x·σ(2u) = σ + x·σ(1−σ)·2u', with 1 − σ = e·σ for e = e^(−2u), which loses no digits.
float gelu_tanh_slope(float x) {
  const float u = kGeluSlope * (x + kGeluCubic * x * x * x);
  const float e = exp_float(-2.0F * u);
  const float s = 1.0F / (1.0F + e);
  const float du = kGeluSlope * (1.0F + 3.0F * kGeluCubic * x * x);
  return s + x * s * (e * s) * 2.0F * du;
}

float gelu_erf(float x) {
  return 0.5F * x * (1.0F + std::erf(x * static_cast<float>(1.0 / std::numbers::sqrt2)));
}

float gelu_erf_slope(float x) {
  const float cdf = 0.5F * (1.0F + std::erf(x * static_cast<float>(1.0 / std::numbers::sqrt2)));
  const float pdf =
      static_cast<float>(std::numbers::inv_sqrtpi / std::numbers::sqrt2) * exp_float(-0.5F * x * x);
  return cdf + x * pdf;
}

template <class F>
void map(std::int64_t count, const float* x, float* y, F f) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = f(x[i]);
}

template <class F>
void map_grad(std::int64_t count, const float* dy, const float* x, float* dx, F slope) {
  for (std::int64_t i = 0; i < count; ++i) dx[i] = dy[i] * slope(x[i]);
}

void swiglu_row(std::int64_t width, const float* x, float* y) {
  const float* gate = x;
  const float* up = x + width;
  for (std::int64_t j = 0; j < width; ++j) y[j] = gate[j] * logistic(gate[j]) * up[j];
}

// d/dg g·σ(g) = σ(1 + g(1 − σ)).
void swiglu_grad_row(std::int64_t width, const float* dy, const float* x, float* dx) {
  const float* gate = x;
  const float* up = x + width;
  float* dgate = dx;
  float* dup = dx + width;
  for (std::int64_t j = 0; j < width; ++j) {
    const float s = logistic(gate[j]);
    const float slope = s * (1.0F + gate[j] * (1.0F - s));
    const float silu = gate[j] * s;
    dgate[j] = dy[j] * up[j] * slope;
    dup[j] = dy[j] * silu;
  }
}

}  // namespace

void activate(const core::Activate& op, const float* x, float* y) {
  const std::int64_t count = op.rows * op.width;
  switch (op.kind) {
    case ActivationKind::GeluTanh:
      map(count, x, y, gelu_tanh);
      return;
    case ActivationKind::GeluErf:
      map(count, x, y, gelu_erf);
      return;
    case ActivationKind::Relu:
      map(count, x, y, [](float v) { return v > 0.0F ? v : 0.0F; });
      return;
    case ActivationKind::SwiGlu:
      for (std::int64_t r = 0; r < op.rows; ++r) {
        swiglu_row(op.width, x + 2 * r * op.width, y + r * op.width);
      }
      return;
  }
}

void activate_grad(const core::ActivateGrad& op, const float* dy, const float* x, float* dx) {
  const std::int64_t count = op.rows * op.width;
  switch (op.kind) {
    case ActivationKind::GeluTanh:
      map_grad(count, dy, x, dx, gelu_tanh_slope);
      return;
    case ActivationKind::GeluErf:
      map_grad(count, dy, x, dx, gelu_erf_slope);
      return;
    case ActivationKind::Relu:
      map_grad(count, dy, x, dx, [](float v) { return v > 0.0F ? 1.0F : 0.0F; });
      return;
    case ActivationKind::SwiGlu:
      for (std::int64_t r = 0; r < op.rows; ++r) {
        swiglu_grad_row(op.width, dy + r * op.width, x + 2 * r * op.width, dx + 2 * r * op.width);
      }
      return;
  }
}

void add(const core::Add& op, const float* a, const float* b, const float* bias, float* y) {
  if (bias == nullptr) {
    const std::int64_t count = op.rows * op.width;
    for (std::int64_t i = 0; i < count; ++i) y[i] = a[i] + b[i];
    return;
  }
  for (std::int64_t r = 0; r < op.rows; ++r) {
    const std::int64_t at = r * op.width;
    for (std::int64_t j = 0; j < op.width; ++j) y[at + j] = a[at + j] + (b[at + j] + bias[j]);
  }
}

}  // namespace orrery::engine
