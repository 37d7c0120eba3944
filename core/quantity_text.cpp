#include "core/quantity_text.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

namespace orrery::core {
namespace {

using Scale = std::pair<double, const char*>;

// Three significant digits in the largest unit that leaves at least 1 before the point.
template <std::size_t N>
std::string scaled(double value, const std::array<Scale, N>& units) {
  for (std::size_t i = 0; i < N; ++i) {
    const auto& [size, name] = units[i];
    // 0.9995 would print as 1.00 of the unit above.
    if (std::abs(value) < 0.9995 * size && i + 1 < N) continue;
    const double in_unit = value / size;
    const double magnitude = std::abs(in_unit);
    const int decimals = magnitude >= 99.95 ? 0 : magnitude >= 9.995 ? 1 : 2;
    return fmt::format("{:.{}f} {}", in_unit, decimals, name);
  }
  return {};
}

}  // namespace

std::string text(Seconds s) {
  static const std::array<Scale, 4> kUnits = {
      {{1.0, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}}};
  return s.value == 0.0 ? "0 s" : scaled(s.value, kUnits);
}

std::string text(Bytes b) {
  static const std::array<Scale, 5> kUnits = {
      {{0x1p40, "TiB"}, {0x1p30, "GiB"}, {0x1p20, "MiB"}, {0x1p10, "KiB"}, {1.0, "B"}}};
  return b.value == 0.0 ? "0 B" : scaled(b.value, kUnits);
}

std::string message_text(Bytes b) {
  static const std::array<Scale, 5> kUnits = {
      {{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}, {1.0, "B"}}};
  return b.value == 0.0 ? "0 B" : scaled(b.value, kUnits);
}

std::string text(BytesPerSecond r) {
  static const std::array<Scale, 4> kUnits = {
      {{1e12, "TB/s"}, {1e9, "GB/s"}, {1e6, "MB/s"}, {1e3, "kB/s"}}};
  return scaled(r.value, kUnits);
}

std::string text(FlopsPerSecond r) {
  static const std::array<Scale, 4> kUnits = {
      {{1e15, "PFLOP/s"}, {1e12, "TFLOP/s"}, {1e9, "GFLOP/s"}, {1e6, "MFLOP/s"}}};
  return scaled(r.value, kUnits);
}

std::string percent(double share) { return fmt::format("{:.1f}%", 100.0 * share); }

std::string count(double number) {
  std::string digits = fmt::format("{:.0f}", std::abs(number));
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return (number < 0 ? "-" : "") + digits;
}

}  // namespace orrery::core
