#pragma once
// Gaps: when a rank does nothing at all inside the pipeline's window, and whom it waits for.
//
// A gap ends, sooner or later, with the rank's next compute span. Its cause is found backwards from
// there: the last to end of what that span waited for, and again of that one, until one is reached
// that was itself waiting during the gap. What that one waited for is the cause:
//
//   rank 0   F0 F1 ▒▒▒▒▒▒▒▒▒▒ B0            gap of rank 0: B0 waited for receive r,
//   receive        ├ waits ──┤r│            r for its send at rank 1,
//   rank 1      F0 F1?  B0 ──┘              that for B0 of rank 1: rank 1 is to blame.

#include <optional>
#include <string_view>
#include <vector>

#include "core/trace.h"
#include "core/trace/rank_timeline.h"

namespace orrery::core {

enum class GapCause {
  WarmUp,  ///< Pipeline: before the rank's first backward, for a neighbour's compute.
  Drain,   ///< Pipeline: after the rank's last forward, for a neighbour's compute; and of any rank
           ///< that has nothing left to do in this step.
  Imbalance,  ///< Pipeline: in between, for a neighbour's compute: it is slower or late.
  Pipeline,   ///< For a message of the pipeline that queued behind another.
  Tensor,     ///< For the last member of a tensor-parallel collective.
  Context,    ///< For a rank that shares the sequence: its heads, or its keys and values.
  Expert,     ///< For the last member of an exchange of rows between experts.
  Gather,     ///< For the last member of a gathering of parameters.
  Data,       ///< For the last member of a data-parallel collective.
  Server,     ///< For a parameter server, or a server for its workers.
  Host        ///< All it needed was there: launching, the operating system, the program itself.
};
inline constexpr int kGapCauses = 11;
std::string_view gap_cause_name(GapCause);
char gap_cause_letter(GapCause);  ///< w d i p t x e g c s h: what the viewer writes into a gap.

struct Gap {
  Rank rank;
  int step = 0;
  Interval when;
  GapCause cause = GapCause::Host;
  std::optional<std::int32_t> blamed;  ///< The span that was late, usually of another rank.
};

/// Gaps of a step within pipeline_window(), by (rank, time). Cost: O(spans · log spans).
std::vector<Gap> find_gaps(const Trace&, int step);

}  // namespace orrery::core
