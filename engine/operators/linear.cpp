#include "engine/operators/linear.h"

#include "engine/operators/matmul.h"
#include "engine/operators/vector_math.h"

namespace orrery::engine {

void linear(const core::Linear& op, const float* x, const float* w, const float* bias, float* y) {
  matmul(op.rows, op.out, op.in, 1.0F, {x, op.in}, {w, op.in, true}, 0.0F, y, op.out);
  if (bias == nullptr) return;
  for (std::int64_t r = 0; r < op.rows; ++r) {
    float* row = y + r * op.out;
    for (std::int64_t j = 0; j < op.out; ++j) row[j] += bias[j];
  }
}

void linear_input_grad(const core::LinearInputGrad& op, const float* dy, const float* w,
                       float* dx) {
  matmul(op.rows, op.in, op.out, 1.0F, {dy, op.out}, {w, op.in}, op.accumulate ? 1.0F : 0.0F, dx,
         op.in);
}

void linear_weight_grad(const core::LinearWeightGrad& op, const float* dy, const float* x,
                        float* dw, float* dbias) {
  matmul(op.out, op.in, op.rows, 1.0F, {dy, op.out, true}, {x, op.in}, 1.0F, dw, op.in);
  if (dbias != nullptr) bias_grad({op.rows, op.out}, dy, dbias);
}

void bias_grad(const core::BiasGrad& op, const float* dy, float* dbias) {
  add_rows(op.rows, op.width, dbias,
           [&](std::int64_t r, std::int64_t j) { return dy[r * op.width + j]; });
}

}  // namespace orrery::engine
