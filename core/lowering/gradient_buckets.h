#pragma once
// The pieces in which a stage's gradients are reduced and its parameters updated, and where each
// lies in the buffers of gradients and optimizer state (and, sharded, of parameters).
//
//   parameters   [ embedding | layer | layer | ... | head | experts | experts | ... ]
//   buckets      [     0     |       1       | ... |   n  |       n + 1       | ... ]
//
// Layers of one chunk are joined up to a size, and so are their experts.
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
  bool embedding = false, head = false;  ///< What it holds.
  int first_layer = 0, layers = 0;       ///< Of the slice: what they have but experts,
  bool experts = false;                  ///< or their experts.
  int ways = 1;                          ///< Ranks that share its optimizer state.
  bool whole = true;                 ///< All its gradients are kept, not this rank's slice alone.
  std::int64_t gradients_first = 0;  ///< In the gradient buffer.
  std::int64_t slice_first = 0;      ///< Of this rank's slice, in buffers that hold slices alone.

  std::int64_t slice() const { return parameters.count / ways; }  ///< Elements of a rank's slice.
};

/// In the order of the parameters. With plan.bucket, layers are joined from a chunk's last one on
/// until their float32 gradients reach that size; with overlap_gradients = false all are one (and all
/// experts another).
/// @param ties_stages  The embedding's gradient is summed with another stage's at the step's end, so
///                     embedding and head keep theirs whole.
std::vector<GradientBucket> gradient_buckets(const StageParameters&, const StageSlice&,
                                             const DensePlan&, bool ties_stages);

/// Elements of the gradient buffer, and of a buffer that holds slices alone.
std::int64_t gradient_elements(const std::vector<GradientBucket>&);
std::int64_t slice_elements(const std::vector<GradientBucket>&);

}  // namespace orrery::core
