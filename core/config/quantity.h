#pragma once
// Physical quantities as people write them: "450 GB/s", "2.8 us", "989 TFLOP/s". Decimal prefixes
// are powers of 10 (GB = 10^9 bytes), binary ones powers of 2 (GiB = 2^30 bytes).

#include <string>
#include <string_view>

#include "core/units.h"

namespace orrery::core {

enum class Dimension { Time, Data, Bandwidth, ComputeRate, Power, Price };

constexpr Dimension dimension_of(Seconds) { return Dimension::Time; }
constexpr Dimension dimension_of(Bytes) { return Dimension::Data; }
constexpr Dimension dimension_of(BytesPerSecond) { return Dimension::Bandwidth; }
constexpr Dimension dimension_of(FlopsPerSecond) { return Dimension::ComputeRate; }

/// Value of `text` in base units (s, B, B/s, FLOP/s, W, USD/h). Zero needs no unit.
/// @throws ConfigError (without a file position) for a missing or unknown unit, a negative,
/// infinite
///   or impossibly large value, or a zero where `zero_allowed` is false; it names what is allowed.
double parse_quantity(std::string_view text, Dimension, bool zero_allowed);

/// `parse_quantity` for a quantity type, e.g. parse<Bytes>("80 GB").
template <class Q>
Q parse(std::string_view text, bool zero_allowed = false) {
  return Q(parse_quantity(text, dimension_of(Q()), zero_allowed));
}

/// The shortest text with the largest unit that parse_quantity() reads back as exactly `value`.
std::string format_quantity(double value, Dimension);

template <int T, int D, int W>
std::string format(Quantity<T, D, W> quantity) {
  return format_quantity(quantity.value, dimension_of(quantity));
}

}  // namespace orrery::core
