#pragma once
// What the trace file formats share: times as integer nanoseconds, and the check of what was read.

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/trace.h"

namespace orrery::core {

inline constexpr std::string_view kTraceFormat = "orrery trace";
inline constexpr int kTraceVersion = 2;

inline std::int64_t to_nanoseconds(Seconds t) { return std::llround(t.value * 1e9); }
inline Seconds from_nanoseconds(std::int64_t ns) { return Seconds(static_cast<double>(ns) / 1e9); }

/// Why a trace that was read contradicts itself (an index out of range, columns of different
/// lengths, a span that ends before it starts); empty when it is sound.
std::optional<std::string> why_inconsistent(const Trace&);

}  // namespace orrery::core
