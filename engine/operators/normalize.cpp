#include "engine/operators/normalize.h"

#include <cmath>

#include "engine/operators/vector_math.h"

namespace orrery::engine {

namespace {

using core::Normalization;

float inverse_root(float mean_square, double epsilon) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(mean_square) + epsilon));
}

void layer_norm_row(std::int64_t n, double epsilon, const float* x, const float* w, const float* b,
                    float* y, float* statistics) {
  const float count = static_cast<float>(n);
  const float mean = lane_sum(n, [&](std::int64_t i) { return x[i]; }) / count;
  const float variance =
      lane_sum(n, [&](std::int64_t i) { return (x[i] - mean) * (x[i] - mean); }) / count;
  const float rstd = inverse_root(variance, epsilon);
  for (std::int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * rstd * w[i] + b[i];
  statistics[0] = mean;
  statistics[1] = rstd;
}

void rms_norm_row(std::int64_t n, double epsilon, const float* x, const float* w, float* y,
                  float* statistics) {
  const float mean_square =
      lane_sum(n, [&](std::int64_t i) { return x[i] * x[i]; }) / static_cast<float>(n);
  const float rstd = inverse_root(mean_square, epsilon);
  for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] * rstd * w[i];
  statistics[0] = rstd;
}

// dx of one row; `mean` 0 and `center` 0 make it that of RmsNorm.
struct RowStatistics {
  float mean, rstd, center;
};

void normalize_grad_row(std::int64_t n, bool accumulate, RowStatistics s, const float* dy,
                        const float* x, const float* w, float* dx) {
  const float count = static_cast<float>(n);
  const auto [mean, rstd, center] = s;
  const float mean_g = center * lane_sum(n, [&](std::int64_t i) { return dy[i] * w[i]; }) / count;
  const float mean_gx =
      lane_sum(n, [&](std::int64_t i) { return dy[i] * w[i] * ((x[i] - mean) * rstd); }) / count;
  if (accumulate) {
    for (std::int64_t i = 0; i < n; ++i) {
      dx[i] += rstd * (dy[i] * w[i] - mean_g - (x[i] - mean) * rstd * mean_gx);
    }
  } else {
    for (std::int64_t i = 0; i < n; ++i) {
      dx[i] = rstd * (dy[i] * w[i] - mean_g - (x[i] - mean) * rstd * mean_gx);
    }
  }
}

}  // namespace

void normalize(const core::Normalize& op, const float* x, const float* w, const float* b, float* y,
               float* statistics) {
  for (std::int64_t r = 0; r < op.rows; ++r) {
    const std::int64_t at = r * op.width;
    switch (op.kind) {
      case Normalization::LayerNorm:
        layer_norm_row(op.width, op.epsilon, x + at, w, b, y + at, statistics + 2 * r);
        break;
      case Normalization::RmsNorm:
        rms_norm_row(op.width, op.epsilon, x + at, w, y + at, statistics + r);
        break;
    }
  }
}

void normalize_grad(const core::NormalizeGrad& op, const float* dy, const float* x, const float* w,
                    const float* statistics, float* dx, float* dw, float* db) {
  const bool centered = op.kind == Normalization::LayerNorm;
  const auto of_row = [&](std::int64_t r) {
    return centered ? RowStatistics{statistics[2 * r], statistics[2 * r + 1], 1.0F}
                    : RowStatistics{0.0F, statistics[r], 0.0F};
  };
  const std::int64_t n = op.width;
  // The weights' gradients first: dx may take dy's or x's place.
  add_rows(op.rows, n, dw, [&](std::int64_t r, std::int64_t j) {
    const RowStatistics s = of_row(r);
    return dy[r * n + j] * ((x[r * n + j] - s.mean) * s.rstd);
  });
  if (db != nullptr) {
    add_rows(op.rows, n, db, [&](std::int64_t r, std::int64_t j) { return dy[r * n + j]; });
  }
  for (std::int64_t r = 0; r < op.rows; ++r) {
    normalize_grad_row(n, op.accumulate, of_row(r), dy + r * n, x + r * n, w, dx + r * n);
  }
}

}  // namespace orrery::engine
