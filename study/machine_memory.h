#pragma once
// What this machine's memory allows: told before it is taken, because the system kills who takes
// too much.

#include <cstdint>
#include <optional>
#include <string>

#include "core/cluster.h"
#include "core/program.h"
#include "sim/simulate.h"

namespace orrery::study {

/// Memory that a process may still take: what the system calls available, or what its control group
/// leaves where that is less. Absent where the system does not say.
std::optional<core::Bytes> available_memory();

/// @throws SystemError "<what> needs 3.00 GiB of memory, but 1.00 GiB are available; <advice>".
void require_memory(core::Bytes needed, const std::string& what, const std::string& advice);

/// Instructions that the simulator executes, each of which becomes a span of its trace.
std::int64_t simulated_spans(const core::Program&, const core::Cluster&,
                             const sim::SimulateOptions&);

/// Instructions that all ranks of a run execute in one step.
std::int64_t executed_spans(const core::Program&);

/// A trace of so many spans while it is made and written.
/// @throws SystemError where a trace cannot number that many.
core::Bytes trace_memory(std::int64_t spans);

/// Largest memory of all ranks together: what a run in one process allocates.
core::Bytes run_memory(const core::Program&);

}  // namespace orrery::study
