#pragma once
// Time of a pipeline schedule, at a cost that does not grow with the number of microbatches.
//
// The passes of core/lowering/pipeline_schedule.h are replayed one by one, with the waits that
// lowering gives them (core/lowering/message_bounds.h):
//   a pass starts after the pass before it; a backward pass needs the gradient from the next chunk
//   only after `ahead`, the recomputation that it begins with;
//   a message moves when it was sent, the one before it of its kind has arrived, and its receiver
//   has ended the pass that used the last but one before it;
//   a pass that sends starts only when the last but one message before its own has arrived, and a
//   backward pass when the activation that its forward sent has.
//
// The schedule is a (max,+) linear system, so its time soon grows by the same amount with every
// microbatch (every `stages` of them where they go through the chunks in groups). A few microbatches
// more than fill the pipeline are replayed; once each pass and message comes as much later than the
// one before it of its kind as every other does, all further ones will, and the finish is moved by
// that amount for each. Equal stages and free messages give
// (m + p − 1)·(f + b), (p−1)/(m+p−1) of it idle. In 1F1B the amount is the largest mean of a cycle
//   max_{s ≤ e} ( Σ_{j=s..e} (f_j + b_j) + 2·Σ_{j=s..e−1} c_j ) / (e−s+1),
// forward from stage s to e and back, so messages are exposed even in the steady state.
// Source: Baccelli et al., Synchronization and Linearity, 1992; Narayanan et al., SC 2021.

#include <vector>

#include "core/lowering/pipeline_schedule.h"
#include "core/units.h"
#include "costmodel/pipeline_graph.h"

namespace orrery::costmodel {

/// Durations by chunk of the whole model, in model order: with p stages of v chunks, entry c·p + s
/// is chunk c of stage s.
struct PipelineStages {
  std::vector<core::Seconds> begin;              ///< By stage: before its first pass.
  std::vector<core::Seconds> forward, backward;  ///< Passes of one microbatch.
  std::vector<core::Seconds> ahead;    ///< Of backward, what needs no gradient from the next chunk.
  std::vector<core::Seconds> message;  ///< To the next chunk, and back. One entry less.
  /// Where the backward pass is split, of its second half; `backward` is the first.
  std::vector<core::Seconds> weight_grad = {};
};

/// When the last backward (or weight-gradient) pass of each chunk ends, in model order.
/// @param stages  begin has shape.stages entries, the others shape.stages · shape.chunks.
std::vector<core::Seconds> pipeline_finish(const core::PipelineShape& shape,
                                           const PipelineStages& stages, PipelineGraphs& graphs);
std::vector<core::Seconds> pipeline_finish(const core::PipelineShape& shape,
                                           const PipelineStages& stages);

/// The same of several steps of one shape, sooner than one after another: what waits for what is looked
/// up once for some of them at a time.
std::vector<std::vector<core::Seconds>> pipeline_finishes(const core::PipelineShape& shape,
                                                          const std::vector<PipelineStages>& steps,
                                                          PipelineGraphs& graphs);

/// When each stage's last pass ends, from its chunks'.
std::vector<core::Seconds> stage_finish(const std::vector<core::Seconds>& of_chunks, int stages);

}  // namespace orrery::costmodel
