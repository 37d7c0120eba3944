#pragma once
// Where a rank's step went.

#include <array>
#include <vector>

#include "core/trace.h"
#include "core/trace/gap.h"
#include "core/trace/rank_timeline.h"

namespace orrery::core {

/// Parts of one rank's step. Every moment counts once: as the leading kind of what is in progress
/// (KindSet::leading), else as bubble by cause inside the pipeline's window, else as `other`.
/// Σ by_kind + Σ bubble + other = step.
struct StepBreakdown {
  Rank rank;
  int step = 0;
  Seconds length;                           ///< Of the step.
  std::array<Seconds, kSpanKinds> by_kind;  ///< Compute; of communication the exposed part only.
  std::array<Seconds, kGapCauses> bubble;
  Seconds other;  ///< Idle before the first forward or after the last
                  ///< backward of all ranks.

  std::array<Seconds, kStreams> stream_busy;  ///< Per stream, overlapping or not.
  Seconds device_busy;                        ///< Union over streams.
  Seconds compute;                            ///< Union of compute.
  Seconds communication;                      ///< Union of communication.
  Seconds overlapped;                         ///< |compute ∩ communication|.

  Seconds of(SpanKind kind) const { return by_kind[static_cast<std::size_t>(kind)]; }
  Seconds of(GapCause cause) const { return bubble[static_cast<std::size_t>(cause)]; }
  Seconds total_bubble() const;
  Seconds exposed_communication() const;
  /// overlapped / communication; 1 without communication (all of it is hidden).
  double overlap() const;
};

/// Of every recorded rank, ascending.
std::vector<StepBreakdown> step_breakdowns(const Trace&, int step);

/// Mean over ranks, each weighted by the ranks it stands for. `breakdowns` must not be empty.
StepBreakdown mean_breakdown(const Trace&, const std::vector<StepBreakdown>& breakdowns);

}  // namespace orrery::core
