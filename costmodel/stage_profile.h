#pragma once
// What one microbatch costs a chunk of layers, read off the blocks of a stage of one chunk: the same
// instructions that run are timed here, so prediction and program cannot drift apart. The stage is
// lowered once, with the smallest microbatch; what it costs with another, or with its groups placed
// otherwise, is arithmetic over what was read off (costmodel/pass_outline.h, pass_memory.h).
//
// All of it is soon affine in the stage's number of layers, since layers repeat: the stage is lowered
// with one, two and three layers, and each further one is as the third. (With a single layer buffers
// are free earlier that layers share. In ZeRO stages 2 and 3 layers take buffers in turns of two, so
// there it is the fourth layer that all others are like.) Where only the first r
// layers recompute, the layers that repeat are those beyond them, of which each stage has some.

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "core/job.h"
#include "core/model.h"
#include "core/plan.h"
#include "core/units.h"
#include "costmodel/collective_cost.h"
#include "costmodel/group_cost.h"
#include "costmodel/lowered_stage.h"
#include "costmodel/memory.h"
#include "costmodel/pass_memory.h"
#include "costmodel/pass_outline.h"

namespace orrery::costmodel {

/// By the number of layers beyond the base: of the first few, and from then on one more like the last.
struct AffineSeconds {
  int base = 0;
  int few = 1;
  std::array<core::Seconds, 4> of_few{};
  core::Seconds at(int layers) const {
    const int beyond = layers - base;
    if (beyond <= few) return of(beyond);
    return of(few) + (of(few) - of(few - 1)) * (beyond - few);
  }

 private:
  core::Seconds of(int beyond) const {
    return beyond < 1 ? core::Seconds(0) : of_few[static_cast<std::size_t>(beyond - 1)];
  }
};

/// The longer of what the device needs and what the host needs to issue its kernels
/// (core/durations.h). Layers repeat, so whichever is slower per layer soon holds up the other;
/// at most a layer's worth is lost where the two take turns within a layer.
struct Makespan {
  AffineSeconds device, host;
  core::Seconds at(int layers) const { return std::max(device.at(layers), host.at(layers)); }
};

/// How long a pass's compute stream waits, by what it waits for: of all instructions that one of the
/// compute stream waits for, the one that ends last.
struct Waits {
  AffineSeconds tensor, context, expert, gather, data;
};

/// A pass of one microbatch.
struct PassTime {
  Makespan makespan;           ///< From its first to its last instruction on the compute stream.
  AffineSeconds compute;       ///< Of it the compute stream is busy; the rest are its waits.
  AffineSeconds recompute;     ///< Of compute: activations computed again.
  AffineSeconds interference;  ///< What compute takes longer beside communication.
  Waits waits;                 ///< makespan.device = compute + interference + waits.
};

/// How long before the end of a microbatch's last pass the gradients of a part are complete.
struct GradientTimes {
  AffineSeconds embedding, head;
  AffineSeconds first_layer;
  // Of layer l: first_layer + l · per_layer; beyond the r layers that alone recompute
  // first_layer + r · per_layer + (l − r) · per_plain_layer.
  core::Seconds per_layer, per_plain_layer;
  core::Seconds before_end(StagePart, int layers) const;
};

struct StageProfile {
  int base = 0;  ///< r.
  PassTime forward, backward;
  PassTime weight_grad;  ///< Zero unless the backward pass is split.
  /// How long parameters are gathered, and gradients summed, in all passes of a microbatch.
  AffineSeconds gathering, reducing;
  GradientTimes gradients;
  core::Seconds ahead;  ///< Recomputation before backward needs the next chunk's gradient.
  core::Bytes message;  ///< One activation (or gradient) sent to a neighbouring stage.

  /// By how much the backward pass is longer because the two, which share the sharding group's links,
  /// take longer than all passes: microbatch after microbatch a stage is not done sooner than they.
  core::Seconds held_up(int layers) const;
  core::Seconds backward_pass(int layers) const;
  /// All passes of one microbatch.
  core::Seconds passes(int layers) const;
  /// The same if the host took no time to issue them.
  core::Seconds device_passes(int layers) const;
  /// What the compute stream waits in them for one kind of communication.
  core::Seconds waits(AffineSeconds Waits::*kind, int layers) const;
  /// What computing takes longer in them beside communication.
  core::Seconds interference(int layers) const;
};

/// What the passes hold, whatever the groups of their collectives cost.
struct StageMemory {
  int base = 0;  ///< r.
  PassMemory of_one, of_two, per_layer;
  PassMemory at(int layers) const;
};

/// Of a stage of which more layers recompute than of `more`, each further one as the last of those: what
/// `more` has beyond `fewer`, of which one layer less recomputes, comes `times` over.
StageProfile further(const StageProfile& fewer, const StageProfile& more, int times);
StageMemory further(const StageMemory& fewer, const StageMemory& more, int times);

/// The plan without what the passes of a stage do not depend on, or only by arithmetic: plans that
/// differ only in it are timed off the same instructions. Its layers per stage are empty.
core::DensePlan passes_alone(const core::DensePlan&);

/// The plan without what the passes' structure does not depend on, what waits for what: how many
/// ranks share.
core::DensePlan passes_structure_alone(const core::DensePlan&);

/// A stage of one chunk with one, two, three (and four) layers beyond those that recompute alone.
struct PassStructure {
  /// @param plan  passes_structure_alone() of a plan.
  PassStructure(const core::DensePlan& plan, StagePlace, const core::Model&, const core::Job&);
  int base = 0;                    ///< r.
  std::vector<core::Role> stages;  ///< By layers, from one.
};

/// Such a stage, as costs are worked out from it.
class StagePasses {
 public:
  /// @param plan  passes_alone() of a plan.
  /// @param structure  Of the same plan and place.
  StagePasses(const core::DensePlan& plan, StagePlace, const PassStructure& structure,
              const core::Model&, const core::Job&, const core::Device&);

  /// @param sharding  Ranks that share: as many as the stage was lowered for, or, if in neither case
  /// slices are padded, any number of them.
  /// @param groups  Within the stage, of a plan that the stage was lowered for.
  StageProfile profile(int microbatch, int sharding, const PlanGroups& groups, const FabricCost&,
                       const PassConditions& = {}) const;
  StageMemory memory(int microbatch) const;

 private:
  /// The stage with some number of layers.
  struct Layers {
    StageOutline outline;
    ScaledPassMemory memory;
  };
  Layers lowered(int layers, const core::Role& like, const core::DensePlan&, const core::Model&,
                 const core::Job&);

  StagePlace ends_;
  int base_ = 0;
  int microbatch_ = 1;  ///< That was lowered.
  StageOutliner outliner_;
  std::vector<Layers> stages_;  ///< By layers beyond the base, from one.
};

}  // namespace orrery::costmodel
