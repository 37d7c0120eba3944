#pragma once
// The order in which one pipeline stage works on its microbatches. p stages, m microbatches.
//
// GPipe, 3 microbatches:        F0 F1 F2 B2 B1 B0
// 1F1B, stage s:                min(p−1−s, m) forwards, then one forward and one backward in turn,
//                               then the remaining backwards. At most min(p−s, m) are in flight.
// Both leave (p−1)/(m+p−1) of a uniform step idle.
//
// Interleaved 1F1B: the model is cut into p·v chunks, stage s holds chunks s, s+p, s+2p, ... and runs
// p microbatches through one chunk before it goes on to the next. 2(p−1−s) + (v−1)·p forwards, then
// one forward and one backward in turn: (p−1)/(v·m+p−1) idle, for v times the messages.
//
// Zero bubble: the backward pass is split. B computes the gradients of the inputs, which the stage
// before waits for; W those of the weights, which nobody waits for and which fills what would be
// idle. F, B and W stand for their durations.
//   ZB-H1   1F1B with B for its backward passes, each W s microbatches behind its B: every stage has
//           at most p microbatches between F and W, as 1F1B's first. Idle (p−1)(F+B−W).
//   ZB-1p, ZB-2p   the order that follows from the durations (core/lowering/zero_bubble.h) with at
//           most p or 2p microbatches between F and W.
//
// Source: Huang et al., GPipe, NeurIPS 2019; Narayanan et al., PipeDream-Flush, ICML 2021, and
// Efficient Large-Scale Language Model Training, SC 2021; Qi et al., Zero Bubble Pipeline
// Parallelism, ICLR 2024.

#include <compare>
#include <optional>
#include <vector>

#include "core/plan.h"

namespace orrery::core {

/// Backward computes both gradients; InputGrad and WeightGrad are its two halves.
enum class PassKind { Forward, Backward, InputGrad, WeightGrad };

struct StagePass {
  PassKind kind = PassKind::Forward;
  int microbatch = 0;
  int chunk = 0;  ///< Of the stage's own, 0 .. v−1.
  auto operator<=>(const StagePass&) const = default;
};

/// Everything that an order of passes depends on.
struct PipelineShape {
  PipelineSchedule schedule = PipelineSchedule::OneFOneB;
  int stages = 1;
  int chunks = 1;  ///< Per stage; above 1 only Interleaved.
  int microbatches = 1;
  std::optional<PassTimes> times = {};  ///< ZeroBubble1p and ZeroBubble2p.
  auto operator<=>(const PipelineShape&) const = default;
};
PipelineShape pipeline_shape(const DensePlan&, int microbatches);

/// Whether weight gradients have passes of their own.
bool splits_backward(PipelineSchedule);

/// Whether the order follows from PipelineShape::times, for all stages at once.
bool computed_from_durations(PipelineSchedule);

/// By stage, in order. Interleaved needs microbatches that `stages` divides.
std::vector<std::vector<StagePass>> pipeline_passes(const PipelineShape&);

/// Of one stage.
std::vector<StagePass> stage_passes(const PipelineShape&, int stage);

}  // namespace orrery::core
