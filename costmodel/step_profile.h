#pragma once
// What a stage does once a step, read off its lowered role: the block before its first pass, the
// block after its last, and the buffers that live throughout.
//
// A stage of many layers is not lowered as it is. Its last block goes through the layers several
// times over (reduce, measure, update), an iteration like the one before it, so it is lowered with
// few layers and its middle iterations are repeated; a test holds that to be the block that the
// full stage is lowered to. Buckets of several layers repeat otherwise: such a plan's stages are
// lowered in full.

#include <optional>
#include <vector>

#include "core/cluster.h"
#include "core/job.h"
#include "core/model.h"
#include "core/plan.h"
#include "core/program.h"
#include "costmodel/group_cost.h"
#include "costmodel/lowered_stage.h"
#include "costmodel/memory.h"

namespace orrery::costmodel {

/// An instruction of the step's last block.
struct EndInstruction {
  core::Stream stream = core::Stream::Compute;
  core::Seconds duration;
  /// Of a collective, and of it alone.
  std::optional<core::GroupKind> group;
  bool after_passes = false;         ///< Starts after the stage's last pass.
  std::vector<int> waits;            ///< For earlier instructions of the block.
  std::vector<StagePart> gradients;  ///< It waits for the gradients of these parts.
};

/// What a stage does once a step.
struct StepProfile {
  core::Seconds begin;      ///< Before the first pass.
  MemoryByTerm persistent;  ///< Lives throughout.
  std::vector<EndInstruction> end;
};

/// Everything that it depends on beside the model, the job and the devices.
struct StepQuestion {
  core::DensePlan plan;  ///< step_alone() of the plan.
  StageEnds ends;
  int layers = 1;

  auto operator<=>(const StepQuestion&) const = default;
};

/// The plan without what the step's first and last blocks do not depend on. Its layers per stage are
/// empty.
core::DensePlan step_alone(const core::DensePlan&);

/// A stage's first and last blocks, with collectives still untimed.
class StepTemplate {
 public:
  StepTemplate(const StepQuestion&, const core::Model&, const core::Device&, const core::Job&);

  /// @param groups  Of the plan.
  StepProfile profile(const PlanGroups& groups, const FabricCost&) const;

 private:
  struct Item {
    EndInstruction instruction;
    std::optional<core::Collective> collective;
    std::optional<StagePart> part;  ///< Of the parameters that it works on.
  };
  /// A stage lowered with few layers.
  struct Lowered {
    int layers = 0;
    core::Seconds begin;
    MemoryByTerm persistent{};
    std::vector<Item> items;
  };
  static Lowered lower(const StepQuestion&, int layers, const core::Model&, const core::Device&,
                       const core::Job&);
  static std::vector<Item> repeat_layers(const Lowered&, int layers);

  Lowered lowered_;
};

}  // namespace orrery::costmodel
