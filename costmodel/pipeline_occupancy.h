#pragma once
// What a pipeline stage holds while it runs each of its passes: how many microbatches of each chunk
// between forward and backward, how many messages on either side. Counts only; what they weigh is in
// costmodel/memory.h.
//
// Follows core/lowering/message_bounds.h: a message may have been fetched once the pass has ended
// that used the last but one before it; what was sent may be there until the pass begins that sends
// the next but one, or until the backward pass of the same microbatch.

#include <compare>
#include <cstddef>
#include <vector>

#include "core/lowering/pipeline_schedule.h"

namespace orrery::costmodel {

/// Of one chunk, or of all chunks that cost the same, beside the pass that runs.
struct ChunkHolding {
  int saved =
      0;         ///< Microbatches after their forward, before their (input-gradient) backward pass.
  int kept = 0;  ///< Microbatches between the two halves of a split backward pass.
  int activations_received = 0, gradients_received = 0, loads = 0;  ///< Fetched ahead.
  int activations_sent = 0, gradients_sent = 0;                     ///< Perhaps not received yet.
  auto operator<=>(const ChunkHolding&) const = default;
};

struct PassMoment {
  core::PassKind kind = core::PassKind::Forward;
  std::size_t chunk = 0;            ///< Its kind.
  std::vector<ChunkHolding> holds;  ///< By kind of chunk.
  auto operator<=>(const PassMoment&) const = default;
};

/// By chunk of a stage, which of its chunks cost the same: kinds 0 .. n−1.
using ChunkKinds = std::vector<std::size_t>;

/// The moments of a stage in which it can hold most: each moment of its step holds no more of
/// anything than one of these of the same kind and chunk. At a cost independent of the number of
/// microbatches: what schedules repeat is looked at once.
std::vector<PassMoment> fullest_moments(const core::PipelineShape&, int stage, const ChunkKinds&);

/// The shortest step whose stages hold as much at those moments, as further microbatches fill many
/// schedules no more.
core::PipelineShape as_full(const core::PipelineShape&);

/// Of all stages of one chunk each: sooner than one by one where the order of passes is computed for
/// all at once.
std::vector<std::vector<PassMoment>> fullest_moments(const core::PipelineShape&);

}  // namespace orrery::costmodel
