#pragma once
// How fast this machine's memory streams.

#include "core/units.h"

namespace orrery::study {

/// Bandwidth of one of `threads` threads that all compute a[i] = b[i] + s·c[i] over arrays far
/// larger than any cache, the best of several passes; 3 · 8 bytes per element.
/// Source of the kernel and of the count: McCalpin, STREAM triad, 1995.
core::BytesPerSecond measure_memory_bandwidth(int threads);

}  // namespace orrery::study
