#pragma once
// From a plan's files to its simulated trace.

#include "core/program.h"
#include "core/trace.h"
#include "sim/simulate.h"
#include "study/inputs.h"

namespace orrery::study {

/// The plan lowered, and its program proven sound.
core::Program lower_plan(const Inputs&);

/// The program simulated with the cost model's durations.
/// @throws SystemError where this machine's memory does not hold the trace.
core::Trace simulate_plan(const Inputs&, const core::Program&, const sim::SimulateOptions&);

/// The program's step time by simulation, one rank for all of its role where the program allows it.
core::Seconds simulated_step(const core::Program&, const core::Cluster&, const core::Job&);

}  // namespace orrery::study
