#pragma once
// Traces in files: HDF5 columns, or Chrome trace event JSON (which Perfetto opens) where the name
// ends in .json or .json.gz. Times are integer nanoseconds in both.

#include <filesystem>

#include "core/trace.h"

namespace orrery::core {

/// Writes a trace; the file appears complete or not at all.
/// @throws SystemError naming the path (disk full, no such folder).
void write_trace(const Trace&, const std::filesystem::path&);

/// Reads what write_trace wrote. read_trace(write_trace(t)) equals t, times rounded to nanoseconds.
/// @throws ConfigError naming path and reason when it cannot be read, is cut off, foreign or
/// inconsistent.
Trace read_trace(const std::filesystem::path&);

}  // namespace orrery::core
