#pragma once
// What a measured trace says of the time of each compute instruction.

#include <vector>

#include "core/durations.h"
#include "core/operator.h"
#include "core/program.h"
#include "core/trace.h"

namespace orrery::study {

/// One operator as it was measured.
struct OperatorSample {
  core::Operator op;
  core::Work work;
  core::Seconds duration;
};

/// Every compute instruction of every role: the lower quartile of the durations of all its
/// executions, on all ranks of the role, after the first step (which warms caches and allocates).
/// Disturbances only ever add time, so the quartile is steadier than the median and, unlike the
/// minimum, no stroke of luck.
core::Durations measured_durations(const core::Program&, const core::Trace&);

/// The same as a list. Instructions that did not run are left out.
std::vector<OperatorSample> operator_samples(const core::Program&, const core::Trace&);

}  // namespace orrery::study
