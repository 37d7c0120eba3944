#pragma once
// What a stage does once a step, read off its lowered role: the block before its first pass, the
// block after its last, and the buffers that live throughout.
//
// A stage of many layers is not lowered as it is. Its last block goes through the layers several
// times over (reduce, measure, update), an iteration like the one before it, so it is lowered with
// few layers and its middle iterations are repeated; a test holds that to be the block that the
// full stage is lowered to. Nor is it lowered for each number of ranks that share it, which changes
// sizes alone. Buckets of several layers repeat otherwise: such a plan's stages are lowered in full.

#include <cstdint>
#include <optional>
#include <utility>
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
  std::uint32_t line = 0;                ///< Of StepProfile::durations.
  std::optional<core::GroupKind> group;  ///< Of a collective, and of it alone.
  bool after_passes = false;             ///< Starts after the stage's last pass.
  /// Ends of what it waits for in EndBlock, which begins where the last instruction's ends: earlier
  /// instructions, and parts whose gradients must be complete.
  std::uint32_t waits_end = 0, gradients_end = 0;
};

/// The last block of a stage.
struct EndBlock {
  std::vector<EndInstruction> instructions;
  std::vector<std::uint32_t> waits;
  std::vector<StagePart> gradients;
  std::size_t lines = 0;
};

/// What a stage does once a step.
struct StepProfile {
  core::Seconds begin;      ///< Before the first pass.
  MemoryByTerm persistent;  ///< Lives throughout.
  const EndBlock* end = nullptr;
  std::vector<core::Seconds> durations;  ///< By EndInstruction::line.
};

/// The plan without what the sizes of the step's first and last blocks do not depend on. Its layers
/// per stage are empty.
core::DensePlan step_sizes_alone(const core::DensePlan&);

/// The plan without what their instructions do not depend on, which only know whether a group is
/// there.
core::DensePlan step_structure_alone(const core::DensePlan&);

/// Whether a stage of many layers must be lowered as it is.
bool lowered_in_full(const core::DensePlan&);

/// Iterations over the layers in a block: items in the same place of each have one line, the others
/// lines of their own.
struct BlockLines {
  /// Items that go through the layers in order, up or down; or one item by itself.
  struct Run {
    std::size_t first = 0, end = 0;
    bool loop = false, down = false;
  };
  std::vector<Run> runs;
  std::vector<std::size_t> line;  ///< By item.
  std::size_t lines = 0;
};
/// @param parts  Of the parameters that each item works on.
BlockLines block_lines(const std::vector<std::optional<StagePart>>& parts);

/// The instructions of a stage's last block, lowered with few layers.
class StepOutline {
 public:
  /// @param plan  step_structure_alone() of a plan.
  /// @param layers  Of the stages that are asked for; where there are few, or lowered_in_full(), as
  /// many are lowered.
  StepOutline(const core::DensePlan& plan, StagePlace, int layers, const core::Model&,
              const core::Job&);

  /// The layers that are lowered for a stage of `layers`.
  static int lowered(const core::DensePlan&, int layers);

  /// The block of a stage of that many layers or more.
  EndBlock block(int layers) const;

 private:
  struct Item {
    EndInstruction instruction;
    std::vector<std::uint32_t> waits;
    std::vector<StagePart> gradients;
    std::optional<int> layer;  ///< Whose parameters it works on.
  };
  int layer_standing_in(int layer, int layers) const;

  int layers_;
  std::vector<Item> items_;
  BlockLines lines_;
};

/// The sizes of a stage's first and last blocks, and of its buffers.
class StepSizes {
 public:
  /// @param plan  step_sizes_alone() of a plan.
  /// @param layers  As for StepOutline.
  StepSizes(const core::DensePlan& plan, StagePlace, int layers, const core::Model&,
            const core::Device&, const core::Job&);

  static int lowered(const core::DensePlan&, int layers);

  /// What lives throughout in a stage of that many layers.
  MemoryByTerm persistent(int layers) const;

  /// @param block  StepOutline::block(layers), of the same plan.
  /// @param groups  Of the plan.
  StepProfile profile(int layers, const EndBlock& block, const PlanGroups& groups,
                      const FabricCost&) const;

 private:
  /// A collective of the last block.
  struct InGroup {
    std::size_t line;
    core::CollectiveKind kind;
    core::GroupKind group;
    core::Bytes bytes;
  };
  void add_durations(const core::Role&, const core::Device&, core::DType precision);

  int layers_;
  core::Seconds begin_, begin_of_layer_;
  MemoryByTerm persistent_{}, persistent_of_layer_{};
  std::vector<core::Seconds> durations_;  ///< Of compute instructions; 0 for collectives.
  std::vector<InGroup> collectives_;
};

}  // namespace orrery::costmodel
