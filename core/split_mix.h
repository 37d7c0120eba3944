#pragma once
// Numbers that look random and are a function of other numbers alone.

#include <cstdint>

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

}  // namespace orrery::core
