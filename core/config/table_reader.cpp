#include "core/config/table_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "core/error.h"

namespace orrery::core {

namespace {

/// Levenshtein's distance: fewest insertions, deletions and replacements from one to the other.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

/// The candidate that `word` was probably meant to be.
template <class Names>
std::optional<std::string> nearest(std::string_view word, const Names& candidates) {
  std::optional<std::string> best;
  std::size_t least = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const auto& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < least) {
      least = distance;
      best = std::string(candidate);
    }
  }
  return best;
}

std::string range_text(double least, double most) {
  if (most >= std::numeric_limits<int>::max()) return fmt::format("{:.15g} or more", least);
  return fmt::format("{:.15g} to {:.15g}", least, most);
}

std::string shown(const ConfigValue& value) {
  if (const auto* text = std::get_if<std::string>(&value.data)) return fmt::format("\"{}\"", *text);
  if (const auto* integer = std::get_if<std::int64_t>(&value.data))
    return fmt::format("{}", *integer);
  if (const auto* number = std::get_if<double>(&value.data)) return fmt::format("{}", *number);
  if (const auto* boolean = std::get_if<bool>(&value.data)) return *boolean ? "true" : "false";
  return kind_of(value);
}

std::optional<double> as_number(const ConfigValue& value) {
  if (const auto* number = std::get_if<double>(&value.data)) return *number;
  if (const auto* integer = std::get_if<std::int64_t>(&value.data)) {
    return static_cast<double>(*integer);
  }
  return {};
}

bool is_table(const ConfigValue& value) {
  return std::holds_alternative<ConfigValue::Table>(value.data);
}

}  // namespace

std::string kind_of(const ConfigValue& value) {
  struct Name {
    const char* operator()(ConfigValue::Null) const { return "null"; }
    const char* operator()(bool) const { return "true or false"; }
    const char* operator()(std::int64_t) const { return "an integer"; }
    const char* operator()(double) const { return "a number"; }
    const char* operator()(const std::string&) const { return "a text"; }
    const char* operator()(const ConfigValue::Array&) const { return "an array"; }
    const char* operator()(const ConfigValue::Table&) const { return "a table"; }
    const char* operator()(ConfigValue::Date) const { return "a date"; }
  };
  return std::visit(Name(), value.data);
}

TableReader::TableReader(std::string file, const ConfigValue& table, Sources sources)
    : file_(std::move(file)), table_(&table), sources_(sources) {
  if (const ConfigValue* source = find("source")) {
    known_.insert("source");
    const auto* text = std::get_if<std::string>(&source->data);
    if (text == nullptr) fail_kind("source", *source, "a text");
    if (text->empty()) fail("source", "is empty; say where the numbers come from");
    sources_ = Sources::Optional;  // It stands for everything in this table.
  }
}

const ConfigValue::Table& TableReader::members() const {
  return std::get<ConfigValue::Table>(table_->data);
}

const ConfigValue* TableReader::find(std::string_view key) const {
  const auto found = std::find_if(members().begin(), members().end(),
                                  [&](const auto& member) { return member.first == key; });
  return found == members().end() ? nullptr : &found->second;
}

bool TableReader::has(std::string_view key) {
  known_.emplace(key);
  const ConfigValue* value = find(key);
  return value != nullptr && !std::holds_alternative<ConfigValue::Null>(value->data);
}

const ConfigValue& TableReader::require(std::string_view key) {
  if (has(key)) return *find(key);
  std::vector<std::string> unknown;
  for (const auto& [name, value] : members()) {
    if (known_.count(name) == 0) unknown.push_back(name);
  }
  if (const auto typo = nearest(key, unknown)) {
    fail_at(*find(*typo), key, fmt::format("is missing; is \"{}\" a typing error?", *typo));
  }
  fail_at(*table_, key, "is missing");
}

void TableReader::fail_at(const ConfigValue& at, std::string_view key,
                          const std::string& why) const {
  throw ConfigError(
      fmt::format("{}:{}:{}: {}{}: {}", file_, at.line, at.column, prefix_, key, why));
}

void TableReader::fail(std::string_view key, const std::string& why) const {
  const ConfigValue* value = find(key);
  fail_at(value == nullptr ? *table_ : *value, key, why);
}

void TableReader::fail_kind(std::string_view key, const ConfigValue& value,
                            const char* wanted) const {
  fail_at(
      value, key,
      fmt::format("must be {}, found {}", wanted, is_table(value) ? kind_of(value) : shown(value)));
}

void TableReader::fail_choice(std::string_view key, const std::string& found,
                              const std::vector<std::string_view>& allowed) const {
  fail(key,
       fmt::format("\"{}\" is unknown; allowed are \"{}\"", found, fmt::join(allowed, "\", \"")));
}

std::string TableReader::text(std::string_view key) {
  const ConfigValue& value = require(key);
  const auto* found = std::get_if<std::string>(&value.data);
  if (found == nullptr) fail_kind(key, value, "a text");
  if (found->empty()) fail_at(value, key, "is empty");
  return *found;
}

bool TableReader::is_text(std::string_view key) {
  return std::holds_alternative<std::string>(require(key).data);
}

bool TableReader::boolean(std::string_view key) {
  const ConfigValue& value = require(key);
  const bool* found = std::get_if<bool>(&value.data);
  if (found == nullptr) fail_kind(key, value, "true or false");
  return *found;
}

std::int64_t TableReader::integer(std::string_view key, std::int64_t least, std::int64_t most) {
  const ConfigValue& value = require(key);
  const auto* found = std::get_if<std::int64_t>(&value.data);
  if (found == nullptr) fail_kind(key, value, "an integer");
  if (*found < least || *found > most) {
    fail_at(value, key, fmt::format("is {}; allowed are {} to {}", *found, least, most));
  }
  return *found;
}

int TableReader::count(std::string_view key, int least, int most) {
  return static_cast<int>(integer(key, least, most));
}

std::vector<int> TableReader::counts_in(std::string_view key, const ConfigValue& value, int least,
                                        int most) const {
  const auto* array = std::get_if<ConfigValue::Array>(&value.data);
  if (array == nullptr) fail_kind(key, value, "an array of integers");
  std::vector<int> result;
  for (const ConfigValue& element : *array) {
    const auto* found = std::get_if<std::int64_t>(&element.data);
    if (found == nullptr) fail_kind(key, element, "an array of integers");
    if (*found < least || *found > most) {
      fail_at(element, key, fmt::format("holds {}; allowed are {} to {}", *found, least, most));
    }
    result.push_back(static_cast<int>(*found));
  }
  return result;
}

std::vector<int> TableReader::counts(std::string_view key, int least, int most) {
  return counts_in(key, require(key), least, most);
}

std::vector<std::vector<int>> TableReader::count_lists(std::string_view key, int least, int most) {
  const ConfigValue& value = require(key);
  const auto* array = std::get_if<ConfigValue::Array>(&value.data);
  if (array == nullptr) fail_kind(key, value, "an array of arrays of integers");
  std::vector<std::vector<int>> result;
  for (const ConfigValue& element : *array) {
    result.push_back(counts_in(key, element, least, most));
  }
  return result;
}

std::vector<std::string> TableReader::texts(std::string_view key) {
  const ConfigValue& value = require(key);
  const auto* array = std::get_if<ConfigValue::Array>(&value.data);
  if (array == nullptr) fail_kind(key, value, "an array of texts");
  std::vector<std::string> result;
  for (const ConfigValue& element : *array) {
    const auto* found = std::get_if<std::string>(&element.data);
    if (found == nullptr) fail_kind(key, element, "an array of texts");
    result.push_back(*found);
  }
  return result;
}

double TableReader::number(std::string_view key, Range range) {
  const ConfigValue& value = require(key);
  const auto found = as_number(value);
  if (!found) fail_kind(key, value, "a number");
  if (!(*found >= range.least && *found <= range.most)) {  // Also refuses NaN.
    fail_at(value, key,
            fmt::format("is {}; allowed are {}", *found, range_text(range.least, range.most)));
  }
  return *found;
}

const ConfigValue& TableReader::sourced_value(std::string_view key) {
  const ConfigValue& value = require(key);
  if (is_table(value)) {
    TableReader inner = nested(key, value);
    const ConfigValue& result = inner.require("value");
    inner.has("between");
    if (inner.sources_ == Sources::Required) {
      inner.fail("source", "is missing; say where the number comes from");
    }
    inner.finish();
    return result;
  }
  if (sources_ == Sources::Required) {
    fail_at(value, key,
            fmt::format("needs a source; write {{ value = {}, source = \"where it comes from\" }}",
                        shown(value)));
  }
  return value;
}

double TableReader::constant(std::string_view key, Range range) {
  const ConfigValue& value = sourced_value(key);
  const auto found = as_number(value);
  if (!found) fail_kind(key, value, "a number");
  if (!(*found >= range.least && *found <= range.most)) {
    fail_at(value, key,
            fmt::format("is {}; allowed are {}", *found, range_text(range.least, range.most)));
  }
  return *found;
}

double TableReader::quantity_of(std::string_view key, const ConfigValue& value, Dimension dimension,
                                Sign sign) const {
  const auto* text = std::get_if<std::string>(&value.data);
  if (text == nullptr) {
    const auto bare = as_number(value);
    if (bare && *bare != 0) {
      fail_at(value, key, fmt::format("{} needs a unit: write it as a text with a unit", *bare));
    }
    if (!bare) fail_kind(key, value, "a text with a unit");
    if (sign == Sign::Positive) fail_at(value, key, "is zero; it must be above zero");
    return 0;
  }
  try {
    return parse_quantity(*text, dimension, sign == Sign::NonNegative);
  } catch (const ConfigError& error) {
    fail_at(value, key, error.what());
  }
}

double TableReader::quantity(std::string_view key, Dimension dimension, Sign sign) {
  const double value = quantity_of(key, sourced_value(key), dimension, sign);
  const ConfigValue& member = *find(key);
  if (!is_table(member)) return value;
  const TableReader inner = nested(key, member);
  const ConfigValue* between = inner.find("between");
  if (between == nullptr) return value;
  const auto* ends = std::get_if<ConfigValue::Array>(&between->data);
  if (ends == nullptr || ends->size() != 2) {
    inner.fail("between", "must be an array of two quantities, the least and the most");
  }
  const double least = quantity_of(key, ends->front(), dimension, Sign::NonNegative);
  const double most = quantity_of(key, ends->back(), dimension, Sign::NonNegative);
  if (value < least || value > most) inner.fail("between", "does not contain the value");
  return value;
}

TableReader TableReader::nested(std::string_view key, const ConfigValue& value) const {
  TableReader inner(file_, value, sources_);
  inner.prefix_ = fmt::format("{}{}.", prefix_, key);
  return inner;
}

TableReader TableReader::table(std::string_view key) {
  const ConfigValue& value = require(key);
  if (!is_table(value)) fail_kind(key, value, "a table");
  return nested(key, value);
}

std::vector<TableReader> TableReader::tables(std::string_view key) {
  const ConfigValue& value = require(key);
  const auto* array = std::get_if<ConfigValue::Array>(&value.data);
  if (array == nullptr) fail_kind(key, value, "an array of tables");
  std::vector<TableReader> result;
  for (const ConfigValue& element : *array) {
    if (!is_table(element)) fail_kind(key, element, "an array of tables");
    result.push_back(nested(key, element));
  }
  if (result.empty()) fail_at(value, key, "is empty; it needs at least one entry");
  return result;
}

std::vector<std::string> TableReader::keys() const {
  std::vector<std::string> names;
  for (const auto& member : members()) names.push_back(member.first);
  return names;
}

void TableReader::finish() const {
  for (const auto& [key, value] : members()) {
    if (known_.count(key) > 0) continue;
    if (const auto close = nearest(key, known_)) {
      fail_at(value, key, fmt::format("unknown key; did you mean \"{}\"?", *close));
    }
    fail_at(value, key, fmt::format("unknown key; allowed are {}", fmt::join(known_, ", ")));
  }
}

}  // namespace orrery::core
