#pragma once
// Layer normalisation and root-mean-square normalisation.

#include "core/operator.h"

namespace orrery::engine {

/// y = (x − mean)·rstd·w + b with rstd = 1/√(variance + ε), or x·rstd·w with
/// rstd = 1/√(mean square + ε) for RmsNorm (b null). x, y: [rows, width].
/// statistics: [rows, 2] (mean, rstd), for RmsNorm [rows, 1] (rstd).
void normalize(const core::Normalize&, const float* x, const float* w, const float* b, float* y,
               float* statistics);

/// With x̂ = (x − mean)·rstd and g = dy·w:
///   dx = (or +=) rstd·(g − mean(g) − x̂·mean(g·x̂))   (RmsNorm: without mean(g))
///   dw += Σ_rows dy·x̂;  db += Σ_rows dy (may be null).
void normalize_grad(const core::NormalizeGrad&, const float* dy, const float* x, const float* w,
                    const float* statistics, float* dx, float* dw, float* db);

}  // namespace orrery::engine
