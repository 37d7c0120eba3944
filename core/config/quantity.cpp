#include "core/config/quantity.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "core/error.h"

namespace orrery::core {

namespace {

struct Unit {
  std::string_view name;
  double scale;  ///< Base units in one of this unit.
};

/// What a dimension's quantities may look like. `units` ascend; format_quantity() uses those before
/// `read_only`.
struct Rules {
  std::string_view what;
  std::string_view example;
  std::vector<Unit> units;
  std::vector<Unit> read_only;
  double smallest;  ///< Of the values above zero, in base units.
  double largest;
};

constexpr double kKi = 1024.0;

// The limits only catch slips such as a wrong prefix written twice: from a femtosecond to 30 years,
// up to a zettabyte, from 1 B/s to 1 EB/s, from 1 FLOP/s to 1 YFLOP/s.
const Rules& rules(Dimension dimension) {
  static const Rules kTime{"time",
                           "2.8 us",
                           {{"ps", 1e-12}, {"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}},
                           {{"µs", 1e-6}, {"min", 60}, {"h", 3600}},
                           1e-15,
                           1e9};
  static const Rules kData{"size",
                           "80 GB",
                           {{"B", 1},
                            {"KB", 1e3},
                            {"KiB", kKi},
                            {"MB", 1e6},
                            {"MiB", kKi * kKi},
                            {"GB", 1e9},
                            {"GiB", kKi * kKi * kKi},
                            {"TB", 1e12},
                            {"TiB", kKi * kKi * kKi * kKi}},
                           {{"kB", 1e3}, {"PB", 1e15}, {"PiB", kKi * kKi * kKi * kKi * kKi}},
                           1,
                           1e21};
  static const Rules kBandwidth{
      "bandwidth",
      "450 GB/s",
      {{"B/s", 1}, {"KB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}, {"TB/s", 1e12}},
      {{"kB/s", 1e3},
       {"KiB/s", kKi},
       {"MiB/s", kKi * kKi},
       {"GiB/s", kKi * kKi * kKi},
       {"bit/s", 0.125},
       {"kbit/s", 125},
       {"Mbit/s", 125e3},
       {"Gbit/s", 125e6},
       {"Tbit/s", 125e9}},
      1,
      1e18};
  static const Rules kComputeRate{
      "compute rate",
      "989 TFLOP/s",
      {{"FLOP/s", 1}, {"MFLOP/s", 1e6}, {"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}},
      {{"EFLOP/s", 1e18}},
      1,
      1e24};
  static const Rules kPower{"power", "700 W", {{"W", 1}}, {{"kW", 1e3}}, 1e-6, 1e9};
  static const Rules kPrice{"price", "2.50 USD/h", {{"USD/h", 1}}, {}, 1e-9, 1e9};
  switch (dimension) {
    case Dimension::Time:
      return kTime;
    case Dimension::Data:
      return kData;
    case Dimension::Bandwidth:
      return kBandwidth;
    case Dimension::ComputeRate:
      return kComputeRate;
    case Dimension::Power:
      return kPower;
    case Dimension::Price:
      return kPrice;
  }
  ORRERY_CHECK(false, "unknown Dimension");
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

const Unit* find_unit(const Rules& rule, std::string_view name) {
  for (const std::vector<Unit>* units : {&rule.units, &rule.read_only}) {
    const auto found = std::find_if(units->begin(), units->end(),
                                    [&](const Unit& unit) { return unit.name == name; });
    if (found != units->end()) return &*found;
  }
  return nullptr;
}

std::string unit_names(const Rules& rule) {
  std::string names;
  for (const std::vector<Unit>* units : {&rule.units, &rule.read_only}) {
    for (const Unit& unit : *units) names += (names.empty() ? "" : ", ") + std::string(unit.name);
  }
  return names;
}

void check_range(double value, std::string_view text, const Rules& rule, bool zero_allowed) {
  if (!std::isfinite(value)) throw ConfigError(fmt::format("\"{}\" is not a finite number", text));
  if (value < 0) {
    throw ConfigError(fmt::format("\"{}\" is negative; a {} must be {}", text, rule.what,
                                  zero_allowed ? "zero or more" : "above zero"));
  }
  if (value == 0 && !zero_allowed) {
    throw ConfigError(fmt::format("\"{}\" is zero; this {} must be above zero, e.g. \"{}\"", text,
                                  rule.what, rule.example));
  }
  if (value != 0 && (value < rule.smallest || value > rule.largest)) {
    throw ConfigError(fmt::format("\"{}\" is an impossible {}; allowed are {:g} to {:g} {}", text,
                                  rule.what, rule.smallest, rule.largest,
                                  find_unit(rule, rule.units.front().name)->scale == 1
                                      ? rule.units.front().name
                                      : rule.units.back().name));
  }
}

}  // namespace

double parse_quantity(std::string_view text, Dimension dimension, bool zero_allowed) {
  const Rules& rule = rules(dimension);
  const std::string_view body = trimmed(text);
  double number = 0;
  const auto [end, error] = std::from_chars(body.data(), body.data() + body.size(), number);
  if (error == std::errc::result_out_of_range) {
    throw ConfigError(fmt::format("\"{}\" is beyond what can be represented", text));
  }
  if (error != std::errc()) {
    throw ConfigError(fmt::format("\"{}\" is no {}; write a number and a unit, e.g. \"{}\"", text,
                                  rule.what, rule.example));
  }
  const auto length = static_cast<std::size_t>(end - body.data());
  const std::string_view name = trimmed(body.substr(length));
  if (name.empty()) {
    if (number != 0) {
      throw ConfigError(fmt::format("\"{}\" needs a unit, e.g. \"{}\"", text, rule.example));
    }
    check_range(number, text, rule, zero_allowed);
    return number;
  }
  const Unit* unit = find_unit(rule, name);
  if (unit == nullptr) {
    throw ConfigError(fmt::format("\"{}\": \"{}\" is no unit of {}; allowed are {}", text, name,
                                  rule.what, unit_names(rule)));
  }
  const double value = number * unit->scale;
  check_range(value, text, rule, zero_allowed);
  return value;
}

std::string format_quantity(double value, Dimension dimension) {
  const std::vector<Unit>& units = rules(dimension).units;
  std::string shortest;
  for (const Unit& unit : units) {
    const double number = value / unit.scale;
    if (number < 1 && !shortest.empty()) continue;
    if (number * unit.scale != value) continue;  // Rounding: it would not read back the same.
    std::string text = fmt::format("{} {}", number, unit.name);
    if (shortest.empty() || text.size() <= shortest.size()) shortest = std::move(text);
  }
  ORRERY_CHECK(!shortest.empty(), "a base unit has scale 1 and always reads back");
  return shortest;
}

}  // namespace orrery::core
