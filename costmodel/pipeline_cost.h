#pragma once
// Time of a pipeline schedule in closed form, whatever the number of microbatches.
//
// With f_s, b_s the passes of stage s of p, c_s the message between stages s and s+1:
//
//   T = Σ (f_s + b_s) + 2·Σ c_s + (m−1) · period
//
// GPipe   period = max(f_s, c_s) + max(b_s, c_s), each over all s.
// 1F1B    is a (max,+) linear system, so its period is the largest mean weight of a cycle. A cycle
//         goes forward from stage s to stage e and back and returns e−s+1 microbatches later:
//           period = max_{s ≤ e} ( Σ_{j=s..e} (f_j + b_j) + 2·Σ_{j=s..e−1} c_j ) / (e−s+1)
//         so messages are exposed even in the steady state, as each waits for the answer.
// Equal stages and free messages give (m + p − 1)·(f + b), with (p−1)/(m+p−1) of it idle.
// Source: Baccelli et al., Synchronization and Linearity, 1992 (cycle means); Narayanan et al.,
// SC 2021 (the bubble).

#include <vector>

#include "core/plan.h"
#include "core/units.h"

namespace orrery::costmodel {

struct PipelineStages {
  std::vector<core::Seconds> forward, backward;  ///< Per stage.
  std::vector<core::Seconds> message;            ///< Between stage s and s+1.
};

/// From the first microbatch's start in stage 0 to the last one's end there.
core::Seconds pipeline_time(core::PipelineSchedule, const PipelineStages&, int microbatches);

/// Time per further microbatch.
core::Seconds pipeline_period(core::PipelineSchedule, const PipelineStages&, int microbatches);

}  // namespace orrery::costmodel
