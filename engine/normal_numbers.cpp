#include "engine/normal_numbers.h"

#include <cmath>
#include <numbers>

#include "engine/fnv1a.h"

namespace orrery::engine {

namespace {

// SplitMix64's mixing function. Source: Steele, Lea, Flood, OOPSLA 2014.
std::uint64_t mix(std::uint64_t z) {
  z += 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

}  // namespace

NormalNumbers::NormalNumbers(std::uint64_t seed, std::string_view tensor)
    : key_(mix(seed ^ fnv1a(tensor))) {}

// Box and Muller's transformation of two uniform numbers in (0, 1].
double NormalNumbers::operator()(std::int64_t element) const {
  const std::uint64_t bits = mix(key_ ^ mix(static_cast<std::uint64_t>(element)));
  constexpr double kUnit = 1.0 / 4294967296.0;  // 2^-32
  const double u = (static_cast<double>(bits >> 32) + 1.0) * kUnit;
  const double v = static_cast<double>(bits & 0xFFFFFFFFU) * kUnit;
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

}  // namespace orrery::engine
