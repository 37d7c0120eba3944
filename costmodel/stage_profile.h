#pragma once
// What one microbatch costs a pipeline stage, read off the stage's lowered blocks: the same
// instructions that run are timed here, so prediction and program cannot drift apart.
//
// All of it is affine in the stage's number of layers, since layers repeat: the blocks are lowered
// for two and three layers and the difference is one layer. (Memory alone is other with a single
// layer: buffers that recompute shares between layers are then free earlier.)

#include <cstdint>

#include "core/job.h"
#include "core/model.h"
#include "core/plan.h"
#include "core/units.h"
#include "costmodel/collective_cost.h"
#include "costmodel/memory.h"

namespace orrery::costmodel {

/// fixed + layers · per_layer.
struct AffineSeconds {
  core::Seconds fixed, per_layer;
  core::Seconds at(int layers) const { return fixed + per_layer * layers; }
};

/// A pass of one microbatch.
struct PassTime {
  AffineSeconds makespan;  ///< From its first to its last instruction on the compute stream.
  AffineSeconds
      compute;  ///< Of it the compute stream is busy; the rest waits for the tensor group.
  AffineSeconds recompute;  ///< Of compute: activations computed again.
};

struct StageProfile {
  PassTime forward, backward;
  PassTime weight_grad;  ///< Zero unless the backward pass is split.
  /// Backward (weight_grad where it is split) until the head's gradients are complete.
  core::Seconds head_backward;
  core::Seconds ahead;  ///< Recomputation before backward needs the next stage's gradient.
  core::Bytes message;  ///< One activation (or gradient) sent to a neighbouring stage.
  PassMemory memory_of_one, memory_of_two, memory_per_layer;

  PassMemory memory(int layers) const;
  /// All passes of one microbatch.
  core::Seconds passes(int layers) const {
    return forward.makespan.at(layers) + backward.makespan.at(layers) +
           weight_grad.makespan.at(layers);
  }
};

/// Everything that a profile depends on.
struct StageQuestion {
  bool first = true;
  bool last = true;
  int tensor = 1;
  int microbatch = 1;
  core::Recompute recompute = core::Recompute::None;
  bool sequence_parallel = false;
  bool split = false;                          ///< Weight gradients have a pass of their own.
  GroupPlacement tensor_alone, tensor_shared;  ///< Of the tensor group; ignored for tensor = 1.

  auto operator<=>(const StageQuestion&) const = default;
};

StageProfile profile_stage(const StageQuestion&, const core::Transformer&, const core::Device&,
                           const FabricCost&, const core::Job&);

}  // namespace orrery::costmodel
