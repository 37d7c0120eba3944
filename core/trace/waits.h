#pragma once
// Whom a step's ranks wait for.

#include <vector>

#include "core/trace.h"

namespace orrery::core {

/// What others wait for a rank, beside the pipeline's own warm-up and drain.
struct WaitedFor {
  Rank rank;
  int ranks = 1;       ///< It and those that it stands for.
  Seconds waited;      ///< Idle time of all ranks that is this rank's, or theirs together.
  double share = 0.0;  ///< Of all ranks' time in the step.
};

/// Sums of the gaps (core/trace/gap.h) by the rank to blame, the largest first.
std::vector<WaitedFor> waited_for(const Trace&, int step);

}  // namespace orrery::core
