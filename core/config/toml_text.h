#pragma once
// Building blocks of the TOML files that the writers write.

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "core/config/quantity.h"

namespace orrery::core {

/// A TOML basic string, quoted and escaped.
std::string toml_string(std::string_view text);

/// A number that TOML reads back as exactly the same floating-point value.
std::string toml_number(double value);

/// "key = value" lines of one table, in the order they are added.
class TomlText {
 public:
  /// A blank line and a header: "[name]", or "[[name]]" for one entry of an array of tables.
  void table(std::string_view name) { text_ += fmt::format("\n[{}]\n", name); }
  void array_entry(std::string_view name) { text_ += fmt::format("\n[[{}]]\n", name); }

  void text(std::string_view key, std::string_view value) { line(key, toml_string(value)); }
  void integer(std::string_view key, std::int64_t value) { line(key, std::to_string(value)); }
  void number(std::string_view key, double value) { line(key, toml_number(value)); }
  void boolean(std::string_view key, bool value) { line(key, value ? "true" : "false"); }
  template <class Q>
  void quantity(std::string_view key, Q value) {
    text(key, format(value));
  }
  void line(std::string_view key, std::string_view value) {
    text_ += fmt::format("{} = {}\n", key, value);
  }

  const std::string& str() const { return text_; }

 private:
  std::string text_;
};

}  // namespace orrery::core
