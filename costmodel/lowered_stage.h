#pragma once
// A pipeline stage lowered by itself, with as many layers as are asked for: what costs are read
// from.

#include <compare>
#include <optional>
#include <vector>

#include "core/job.h"
#include "core/model.h"
#include "core/plan.h"
#include "core/program.h"

namespace orrery::costmodel {

/// Where in the pipeline a stage stands.
struct StagePlace {
  bool first = true;  ///< Holds the embedding.
  bool last = true;   ///< Holds the output layer.
  int device = 0;     ///< Which of the cluster's kinds of device costs are asked of.
  auto operator<=>(const StagePlace&) const = default;
};

/// The role of a stage of one chunk of `layers` layers that runs one microbatch: its calls are the step's begin,
/// the passes, and the step's end. The rest of the pipeline is as short as `ends` allows.
/// @param plan  Of one chunk per stage; its pipeline and layers_per_stage are not looked at.
core::Role lowered_stage(const core::DensePlan& plan, StagePlace ends, int layers,
                         const core::Model&, const core::Job&);

/// Of the same role, buffers and parameters, the step's first block and its last (core::lower_step).
core::Role lowered_step(const core::DensePlan& plan, StagePlace ends, int layers,
                        const core::Model&, const core::Job&);

/// Bytes that grow with the microbatch, and bytes that do not:
///   fixed + scale · scaled,   scale the microbatch in units of the one that was lowered.
struct ScaledBytes {
  core::Bytes fixed, scaled;
  core::Bytes at(double scale) const { return fixed + scaled * scale; }
  auto operator<=>(const ScaledBytes&) const = default;
};

/// A stage with the smallest microbatch whose rows its tensor group can share, and what becomes of
/// its buffers with another.
struct ScaledStage {
  int microbatch = 1;
  core::Role role;
  std::vector<ScaledBytes> buffers;  ///< By Role::buffers.
  int sharding = 1;                  ///< Ranks that share, of the plan that was lowered.
};

/// @param plan  As for lowered_stage(); its microbatch is not looked at.
/// @param like  The stage of a plan of the same structure, which says what waits for what.
ScaledStage scaled_stage(const core::DensePlan& plan, StagePlace ends, int layers,
                         const core::Model&, const core::Job&, const core::Role& like);

/// From the buffers of a stage with some microbatch and of the same with twice it.
std::vector<ScaledBytes> scaled_buffers(const core::Role& one, const core::Role& twice);

/// The least degree above 1 that divides it: where a group is there its size changes no structure.
int fewest_ways(int degree);

/// A part of a stage's parameters.
struct StagePart {
  enum class Kind { Embedding, Layer, Head };
  Kind kind = Kind::Embedding;
  int layer = 0;  ///< Of the stage's; Layer only.
  auto operator<=>(const StagePart&) const = default;
};

/// The part of the flat parameter buffer that element `first` belongs to.
StagePart part_at(const core::Parameters&, std::int64_t first);

/// The part whose gradients (or, with `values`, whose parameters) an instruction touches first;
/// empty where it touches none.
std::optional<StagePart> part_of(const std::vector<core::View>&, const core::Parameters&,
                                 bool values);

/// The blocks of a stage lowered by itself that work on its microbatch: forward, backward and,
/// where they are split off, the weight gradients.
std::vector<const core::Block*> pass_blocks(const core::Role&);

/// The plainest schedule that has the same passes, in whatever order.
core::PipelineSchedule order_free(core::PipelineSchedule);

}  // namespace orrery::costmodel
