#pragma once
// From measured operator speeds to a device's efficiency parameters. `orrery calibrate` and
// bench/fit_gemm use the same functions.

#include <vector>

#include "core/cluster.h"
#include "core/operator.h"

namespace orrery::costmodel {

/// One measured matrix product.
struct GemmSample {
  core::MatmulShape shape;
  double share;  ///< Achieved rate / peak.
};

/// One measured attention pass.
struct AttentionSample {
  double rows;  ///< sequences · sequence · heads.
  bool backward;
  double share;  ///< Of the peak, on the work done (causal half).
};

/// How well a fit tells its own samples.
struct FitQuality {
  double median_error;  ///< Of |predicted / measured − 1|.
  double largest_error;
};

/// Minimises Σ (ln predicted − ln measured)² over ceiling and the three half sizes, all positive.
/// @param samples  At least one. A size that never varies keeps half = 0.
core::GemmEfficiency fit_gemm(const std::vector<GemmSample>& samples);
/// The same over ceiling, half_k and the shares of the smaller tiles, for a GPU with so many
/// multiprocessors; m and n then count by their tiles.
core::GemmEfficiency fit_gemm_tiles(const std::vector<GemmSample>& samples, int processors);
FitQuality quality(const core::GemmEfficiency&, const std::vector<GemmSample>&);

/// Likewise over the two ceilings and half_rows.
/// @param samples  At least one forward and one backward.
core::AttentionEfficiency fit_attention(const std::vector<AttentionSample>& samples);
FitQuality quality(const core::AttentionEfficiency&, const std::vector<AttentionSample>&);

}  // namespace orrery::costmodel
