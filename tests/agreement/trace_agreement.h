#pragma once
// Holds a trace, simulated or measured, to the Program that it is a run of.

#include <string>
#include <vector>

#include "core/program.h"
#include "core/trace.h"

namespace orrery::agreement {

/// Where the trace departs from the meaning stated in core/program.h: another order on a
/// (rank, stream); a span that starts before one it waits for, or before its predecessor on the
/// stream, or before the rank's previous step, has ended; a communication that ends before its last
/// party started, or whose bytes differ between its parties (a pull's or push's are the sum of its
/// servers'). Empty when it agrees.
std::vector<std::string> trace_faults(const core::Program&, const core::Trace&);

/// "rank stream call.index call.index ...": one line per (rank, stream) of a step.
std::vector<std::string> order_of(const core::Trace&, int step);

}  // namespace orrery::agreement
