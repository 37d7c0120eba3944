// nlohmann's event parser, read through an iterator that counts what it has taken, so that every
// value gets its line and column.

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "core/config/atomic_file.h"
#include "core/config/config_value.h"
#include "core/error.h"

namespace orrery::core {

namespace {

using Json = nlohmann::json;

/// An input iterator over a text that keeps its position outside, where the event handler sees it.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, std::size_t* taken) : at_(at), taken_(taken) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*taken_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  std::size_t* taken_;
};

/// A place in a text; it only moves forward, so that a file is walked once.
struct Position {
  std::size_t offset = 0;
  int line = 1;
  int column = 1;

  void advance(std::string_view text, std::size_t to) {
    for (; offset < std::min(to, text.size()); ++offset) {
      column = text[offset] == '\n' ? 1 : column + 1;
      if (text[offset] == '\n') ++line;
    }
  }
};

constexpr std::size_t kDeepest = 100;  // Values are destroyed by recursion.

/// Builds a ConfigValue from the parser's events.
class Builder : public Json::json_sax_t {
 public:
  Builder(std::string_view text, const std::size_t* taken) : text_(text), taken_(taken) {}

  bool null() override { return add(ConfigValue::Null()); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max())) {
      return add(static_cast<double>(value));
    }
    return add(static_cast<std::int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // Never an event of JSON text.
  bool start_object(std::size_t) override { return open(ConfigValue::Table()); }
  bool start_array(std::size_t) override { return open(ConfigValue::Array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    key_ = std::move(name);
    move_to_token();
    key_at_ = at_;
    previous_end_ = *taken_;
    if (!keys_.back().insert(key_).second) return fail(fmt::format("{}: is given twice", key_));
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    // nlohmann's sentence without its "[json.exception...] parse error at line 3, column 5: ".
    std::string what = error.what();
    const auto name_end = what.find("] ");
    if (what.starts_with("[json.exception") && name_end != std::string::npos) {
      what.erase(0, name_end + 2);
    }
    if (what.starts_with("parse error"))
      what.erase(0, std::min(what.find(": "), what.size() - 2) + 2);
    at_.advance(text_, position == 0 ? 0 : position - 1);
    return fail(what);
  }

  ConfigValue root;

  /// "line:column: what is wrong", of a text that is no JSON.
  const std::optional<std::string>& error() const { return error_; }

 private:
  /// The token of this event starts after the previous one and what separates them.
  void move_to_token() { at_.advance(text_, text_.find_first_not_of(" \t\r\n:,", previous_end_)); }

  bool fail(const std::string& why) {
    error_ = fmt::format("{}:{}: {}", at_.line, at_.column, why);
    return false;
  }

  template <class T>
  ConfigValue* place(T data) {
    move_to_token();
    const Position at = key_at_.value_or(at_);
    ConfigValue value{std::move(data), at.line, at.column};
    previous_end_ = *taken_;
    if (open_.empty()) {
      root = std::move(value);
      return &root;
    }
    if (auto* table = std::get_if<ConfigValue::Table>(&open_.back()->data)) {
      table->emplace_back(std::move(key_), std::move(value));
      key_at_.reset();
      return &table->back().second;
    }
    auto& array = std::get<ConfigValue::Array>(open_.back()->data);
    array.push_back(std::move(value));
    return &array.back();
  }

  template <class T>
  bool add(T data) {
    place(std::move(data));
    return true;
  }
  template <class T>
  bool open(T empty) {
    if (open_.size() == kDeepest) return fail("tables and arrays are nested too deep");
    open_.push_back(place(std::move(empty)));
    keys_.emplace_back();
    return true;
  }
  bool close() {
    open_.pop_back();
    keys_.pop_back();
    previous_end_ = *taken_;
    return true;
  }

  std::string_view text_;
  const std::size_t* taken_;
  std::size_t previous_end_ = 0;
  std::string key_;
  std::optional<Position> key_at_;
  Position at_;
  std::optional<std::string> error_;
  std::vector<ConfigValue*> open_;
  std::vector<std::set<std::string>> keys_;  // So far, of each open table.
};

}  // namespace

ConfigValue parse_json_file(const std::filesystem::path& path) {
  const std::string text = read_whole_file(path, kLargestConfig);
  std::size_t taken = 0;
  Builder builder(text, &taken);
  const CountingIterator begin(text.data(), &taken);
  const CountingIterator end(text.data() + text.size(), &taken);
  Json::sax_parse(begin, end, &builder);
  if (builder.error()) {
    throw ConfigError(fmt::format("{}:{}", path.string(), *builder.error()));
  }
  if (!std::holds_alternative<ConfigValue::Table>(builder.root.data)) {
    throw ConfigError(fmt::format("{}:1:1: a JSON object is expected, found {}", path.string(),
                                  kind_of(builder.root)));
  }
  return std::move(builder.root);
}

}  // namespace orrery::core
