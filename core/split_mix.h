#pragma once
// Numbers that look random and are a function of other numbers alone.

#include <cmath>
#include <cstdint>
#include <numbers>

namespace orrery::core {

/// splitmix64: a well-mixed 64 bits from 64 bits.
/// Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// The upper 53 bits as a fraction in [0, 1).
constexpr double fraction(std::uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

/// A draw from the standard normal distribution: √(−2 ln u)·cos 2πv for two fractions of the bits.
/// Source: Box, Muller, Annals of Mathematical Statistics 29(2), 1958.
inline double normal(std::uint64_t bits) {
  const double u = 1.0 - fraction(mix(bits));  // In (0, 1].
  const double v = fraction(mix(~bits));
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

}  // namespace orrery::core
