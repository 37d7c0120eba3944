#pragma once
// Traces in files: HDF5 columns, or Chrome trace event JSON (which Perfetto opens) where the name
// ends in .json or .json.gz. Times are integer nanoseconds in both.

#include <array>
#include <filesystem>
#include <string_view>

#include "core/trace.h"

namespace orrery::core {

/// What a trace's name may end in; ".h5" is HDF5.
inline constexpr std::array<std::string_view, 3> kTraceEndings = {".h5", ".json", ".json.gz"};

/// @throws ConfigError when a trace to be written has a name of another ending.
void check_trace_name(const std::filesystem::path&);

/// Writes a trace; the file appears complete or not at all.
/// @throws ConfigError as check_trace_name; SystemError naming the path (disk full, no such folder).
void write_trace(const Trace&, const std::filesystem::path&);

/// Reads what write_trace wrote. read_trace(write_trace(t)) equals t, times rounded to nanoseconds.
/// @throws ConfigError naming path and reason when it cannot be read, is cut off, foreign or
/// inconsistent.
Trace read_trace(const std::filesystem::path&);

}  // namespace orrery::core
