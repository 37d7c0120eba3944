#include "viz/quantity_text.h"

#include <fmt/format.h>

#include <cmath>
#include <initializer_list>

namespace orrery::viz {

namespace {

struct Unit {
  double size;
  const char* name;
};

/// Three significant digits in the largest unit that does not exceed the value.
std::string in_units(double value, std::initializer_list<Unit> units) {
  const Unit* best = units.end() - 1;
  for (const Unit& unit : units) {
    if (std::abs(value) >= unit.size * 0.9995) {
      best = &unit;
      break;
    }
  }
  const double number = value / best->size;
  const double size = std::abs(number);
  const int decimals = size >= 99.95 || size == 0.0 ? 0 : size >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", number, decimals, best->name);
}

}  // namespace

std::string time_text(core::Seconds t) {
  return in_units(t.value, {{1.0, "s"}, {1e-3, "ms"}, {1e-6, "µs"}, {1e-9, "ns"}});
}

std::string bytes_text(core::Bytes bytes) {
  return in_units(bytes.value, {{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}, {1.0, "B"}});
}

std::string rate_text(core::BytesPerSecond rate) {
  return in_units(rate.value,
                  {{1e12, "TB/s"}, {1e9, "GB/s"}, {1e6, "MB/s"}, {1e3, "kB/s"}, {1.0, "B/s"}});
}

std::string percent_text(double share) { return fmt::format("{:.1f} %", share * 100.0); }

}  // namespace orrery::viz
