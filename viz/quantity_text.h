#pragma once
// Times, sizes and shares as the timeline writes them.

#include <string>

#include "core/units.h"

namespace orrery::viz {

std::string time_text(core::Seconds);         ///< "12.3 ms": three significant digits.
std::string bytes_text(core::Bytes);          ///< "2.10 MB": decimal, as messages are counted.
std::string rate_text(core::BytesPerSecond);  ///< "23.4 GB/s"
std::string percent_text(double share);       ///< "31.4 %"

}  // namespace orrery::viz
