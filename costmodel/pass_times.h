#pragma once
// The durations that a plan gives a schedule to be computed from.

#include <vector>

#include "core/plan.h"
#include "costmodel/memory.h"
#include "costmodel/pipeline_cost.h"

namespace orrery::costmodel {

/// What zb-1p and zb-2p are computed from, for stages of these durations (of a split backward pass)
/// and this memory: the means over the stages, the longest message, and of what is kept for the
/// weight gradients the largest share.
core::PassTimes pass_times(const PipelineStages&, const std::vector<PassMemory>& stages);

}  // namespace orrery::costmodel
