#pragma once
// The cost model's answer to "how long does each instruction take": what the simulator reads until
// measurements replace it.

#include "core/cluster.h"
#include "core/durations.h"
#include "core/job.h"
#include "core/program.h"

namespace orrery::costmodel {

/// compute_time() of every compute instruction, on the device of the role's ranks; where ranks of
/// one role have different devices, the slowest. Zero for communication. With issue_time() of every
/// instruction where a device has one.
core::Durations predict_durations(const core::Program&, const core::Cluster&, const core::Job&);

}  // namespace orrery::costmodel
