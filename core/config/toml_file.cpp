#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "core/config/atomic_file.h"
#include "core/config/config_value.h"
#include "core/error.h"

namespace orrery::core {

namespace {

ConfigValue convert(const toml::node& node) {
  ConfigValue value;
  value.line = static_cast<int>(node.source().begin.line);
  value.column = static_cast<int>(node.source().begin.column);
  if (const toml::table* table = node.as_table()) {
    ConfigValue::Table members;
    for (const auto& [key, member] : *table) {
      members.emplace_back(std::string(key.str()), convert(member));
    }
    value.data = std::move(members);
  } else if (const toml::array* array = node.as_array()) {
    ConfigValue::Array elements;
    for (const toml::node& element : *array) elements.push_back(convert(element));
    value.data = std::move(elements);
  } else if (const auto* text = node.as_string()) {
    value.data = text->get();
  } else if (const auto* integer = node.as_integer()) {
    value.data = integer->get();
  } else if (const auto* number = node.as_floating_point()) {
    value.data = number->get();
  } else if (const auto* boolean = node.as_boolean()) {
    value.data = boolean->get();
  } else {
    value.data = ConfigValue::Date();
  }
  return value;
}

/// Parts that a dotted key may have. toml++ bounds the nesting of values but not of keys, and
/// tables are visited and destroyed by recursion.
constexpr int kMostKeyParts = 16;

/// Walks over a text outside its comments and strings, counting the dots of each key.
class KeyScan {
 public:
  explicit KeyScan(std::string_view text) : text_(text) {}

  /// Line and column of a key of too many parts.
  std::optional<std::pair<int, int>> too_deep() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        skip_to("\n", false);
      } else if (c == '"' || c == '\'') {
        skip_string(c);
      } else {
        if (c == '.' && ++dots_ >= kMostKeyParts) return std::pair(line_, column_);
        if (std::string_view("\n=,{}[]").find(c) != std::string_view::npos) dots_ = 0;
        advance(1);
      }
    }
    return std::nullopt;
  }

 private:
  void advance(std::size_t count) {
    for (const std::size_t end = std::min(at_ + count, text_.size()); at_ < end; ++at_) {
      column_ = text_[at_] == '\n' ? 1 : column_ + 1;
      if (text_[at_] == '\n') ++line_;
    }
  }
  /// Stops before `end`, over whatever a backslash escapes.
  void skip_to(std::string_view end, bool escapes) {
    while (at_ < text_.size() && text_.substr(at_, end.size()) != end) {
      advance(escapes && text_[at_] == '\\' ? 2 : 1);
    }
  }
  void skip_string(char quote) {
    const std::string thrice(3, quote);
    const std::size_t quotes = text_.substr(at_, 3) == thrice ? 3 : 1;
    advance(quotes);
    skip_to(std::string_view(thrice).substr(0, quotes), quote == '"');
    advance(quotes);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
  int column_ = 1;
  int dots_ = 0;
};

}  // namespace

ConfigValue parse_toml_file(const std::filesystem::path& path) {
  const std::string text = read_whole_file(path, kLargestConfig);
  if (const auto place = KeyScan(text).too_deep()) {
    throw ConfigError(fmt::format("{}:{}:{}: a key of more than {} parts", path.string(),
                                  place->first, place->second, kMostKeyParts));
  }
  try {
    const toml::table table = toml::parse(text, path.string());
    return convert(table);
  } catch (const toml::parse_error& error) {
    const toml::source_position at = error.source().begin;
    throw ConfigError(
        fmt::format("{}:{}:{}: {}", path.string(), at.line, at.column, error.description()));
  }
}

}  // namespace orrery::core
