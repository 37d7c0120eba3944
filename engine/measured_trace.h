#pragma once
// The records of all ranks as a core::Trace.

#include <vector>

#include "core/trace.h"
#include "engine/rank_run.h"

namespace orrery::engine {

/// `results` by rank. A communication's transfer begins when the last of those that meet in it has
/// started. A step begins with its first rank and ends with its last.
core::Trace measured_trace(const core::Program&, const std::vector<RankResult>& results);

}  // namespace orrery::engine
