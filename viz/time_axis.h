#pragma once
// Ticks of a time axis at round times.

#include <string>
#include <vector>

#include "core/trace/rank_timeline.h"

namespace orrery::viz {

struct Tick {
  core::Seconds time;
  std::string label;  ///< "1.25 ms"; all ticks of an axis share unit and decimals.
};

/// At most `most` ticks, 1, 2 or 5 times a power of ten apart, within `range`.
std::vector<Tick> time_ticks(core::Interval range, int most);

}  // namespace orrery::viz
