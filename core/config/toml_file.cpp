#include <fmt/format.h>
#include <toml++/toml.h>

#include <string_view>

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

}  // namespace

ConfigValue parse_toml_file(const std::filesystem::path& path) {
  const std::string text = read_whole_file(path, kLargestConfig);
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
