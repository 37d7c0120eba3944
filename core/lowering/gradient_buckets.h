#pragma once
// The pieces in which a stage's gradients are reduced and its parameters updated, and where each
// lies in the buffers of gradients and optimizer state (and, sharded, of parameters).
//
//   parameters   [ embedding | layer | layer | ... | head ]
//   buckets      [     0     |       1       | ... |   n  ]   layers of one chunk joined up to a size
//
// With ZeRO stage 2 a bucket's full gradients live only within a backward pass: a rank keeps the sum
// of its slice. With stage 3 it keeps its slice of the parameters too.
// Source: Rajbhandari et al., ZeRO, SC 2020; joined layers: Li et al., PyTorch Distributed, VLDB 2020.

#include <cstdint>
#include <vector>

#include "core/lowering/parameter_layout.h"
#include "core/plan.h"

namespace orrery::core {

struct GradientBucket {
  ParameterRange parameters;
  int first_part = 0, last_part = 0;  ///< Into StageParameters::parts.
  bool whole = true;                  ///< All its gradients are kept, not this rank's slice alone.
  std::int64_t gradients_first = 0;   ///< In the gradient buffer.
  std::int64_t slice_first = 0;       ///< Of this rank's slice, in buffers that hold slices alone.
};

/// In the order of the parameters. With plan.bucket, layers are joined from a chunk's last one on
/// until their float32 gradients reach that size; with overlap_gradients = false all are one.
/// @param ties_stages  The embedding's gradient is summed with another stage's at the step's end, so
///                     embedding and head keep theirs whole.
std::vector<GradientBucket> gradient_buckets(const StageParameters&, const StageSlice&,
                                             const DensePlan&, bool ties_stages);

/// Elements of the gradient buffer.
std::int64_t gradient_elements(const std::vector<GradientBucket>&, int sharding_ways);

}  // namespace orrery::core
