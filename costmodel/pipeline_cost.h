#pragma once
// Time of a pipeline schedule, at a cost that does not grow with the number of microbatches.
//
// Passes are replayed one by one under the rules that lowering gives a stage
// (core/lowering/lowering.cpp):
//   a pass starts after the pass before it; a backward pass needs the gradient from the next stage
//   only after `ahead`, the recomputation that it begins with;
//   a message moves when it was sent, the one before it has arrived, and its receiver has begun the
//   pass before the one that needs it;
//   a pass starts only when what the pass before the last sent has arrived.
//
// The schedule is a (max,+) linear system, so its time soon grows by the same amount with every
// microbatch: beyond some thousands of passes it is extended along that line. Equal stages and free
// messages give (m + p − 1)·(f + b), (p−1)/(m+p−1) of it idle. In 1F1B the amount is the largest
// mean of a cycle
//   max_{s ≤ e} ( Σ_{j=s..e} (f_j + b_j) + 2·Σ_{j=s..e−1} c_j ) / (e−s+1),
// forward from stage s to e and back, so messages are exposed even in the steady state.
// Source: Baccelli et al., Synchronization and Linearity, 1992; Narayanan et al., SC 2021.

#include <vector>

#include "core/plan.h"
#include "core/units.h"

namespace orrery::costmodel {

/// One entry per stage.
struct PipelineStages {
  std::vector<core::Seconds> begin;              ///< Before the first pass.
  std::vector<core::Seconds> forward, backward;  ///< Passes of one microbatch.
  std::vector<core::Seconds> ahead;    ///< Of backward, what needs no gradient from the next stage.
  std::vector<core::Seconds> message;  ///< To the next stage, and back. One entry less.
};

/// When each stage's last backward pass ends; stage 0's is the pipeline's time.
std::vector<core::Seconds> pipeline_finish(core::PipelineSchedule, const PipelineStages&,
                                           int microbatches);

}  // namespace orrery::costmodel
