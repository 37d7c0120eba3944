#pragma once
// Quantities as people read them: three significant digits and a fitting unit.

#include <string>

#include "core/units.h"

namespace orrery::core {

std::string text(Seconds);          ///< "12.3 ms"
std::string text(Bytes);            ///< "71.4 GiB": 2^30, as memory is counted.
std::string message_text(Bytes);    ///< "2.10 MB": 10^6, as messages are counted.
std::string text(BytesPerSecond);   ///< "450 GB/s": 10^9, as bandwidth is counted.
std::string text(FlopsPerSecond);   ///< "989 TFLOP/s"
std::string percent(double share);  ///< 0.423 is "42.3%".
std::string count(double number);   ///< "8,030,261,248": rounded, thousands separated.

}  // namespace orrery::core
