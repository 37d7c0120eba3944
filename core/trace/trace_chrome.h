#pragma once
// A trace as Chrome trace event JSON, which Perfetto opens: pid = rank, tid = stream, one complete
// event per span, flows as arrows, counters. What the events cannot say (instruction, dependencies,
// collective) is in their args, so that our own files can be read back.

#include <string>
#include <string_view>

#include "core/trace.h"

namespace orrery::core {

std::string trace_to_chrome_json(const Trace&);

/// @throws ConfigError beginning with `path` when the text is not such a trace.
Trace trace_from_chrome_json(std::string_view text, const std::string& path);

}  // namespace orrery::core
