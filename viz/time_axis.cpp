#include "viz/time_axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace orrery::viz {

namespace {

/// The smallest of 1, 2, 5 times a power of ten that is at least `least`.
double round_step(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1.0 - 1e-9)) return factor * power;
  }
  return 10.0 * power;
}

struct Unit {
  double size;
  const char* name;
};

Unit unit_for(double largest) {
  constexpr std::array<Unit, 4> kUnits = {{{1.0, "s"}, {1e-3, "ms"}, {1e-6, "µs"}, {1e-9, "ns"}}};
  for (const Unit& unit : kUnits) {
    if (largest >= unit.size) return unit;
  }
  return kUnits.back();
}

}  // namespace

std::vector<Tick> time_ticks(core::Interval range, int most) {
  const double length = range.length().value;
  if (!(length > 0.0) || most < 1) return {};
  const double step = round_step(length / most);
  const Unit unit = unit_for(std::max(std::abs(range.begin.value), std::abs(range.end.value)));
  const int decimals =
      std::clamp(static_cast<int>(std::ceil(std::log10(unit.size / step) - 1e-9)), 0, 9);
  std::vector<Tick> ticks;
  const double first = std::ceil(range.begin.value / step - 1e-9);
  const double last = std::floor(range.end.value / step + 1e-9);
  for (double k = first; k <= last && static_cast<int>(ticks.size()) <= most; k += 1.0) {
    const double t = k * step;
    ticks.push_back(
        {core::Seconds(t), fmt::format("{:.{}f} {}", t / unit.size + 0.0, decimals, unit.name)});
  }
  return ticks;
}

}  // namespace orrery::viz
