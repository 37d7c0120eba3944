#pragma once
// What a TOML or JSON file says, with the line and column of every value: what the readers of
// models, clusters, devices, jobs and plans see. The parsing libraries stay behind it.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace orrery::core {

struct ConfigValue {
  using Array = std::vector<ConfigValue>;
  using Table = std::vector<std::pair<std::string, ConfigValue>>;
  struct Null {};  ///< JSON's null: as if the key were absent.
  struct Date {};  ///< TOML's dates and times, which no file here uses.

  std::variant<Null, bool, std::int64_t, double, std::string, Array, Table, Date> data;
  int line = 1;
  int column = 1;
};

/// Files beyond this are not read: no config comes near it, and /dev/zero has no end.
inline constexpr std::size_t kLargestConfig = 16U << 20U;

/// "a text", "an integer", ...: for messages.
std::string kind_of(const ConfigValue&);

/// Parses a TOML file to a table.
/// @throws ConfigError "file:line:column: ...", or "file: cannot read: ...".
ConfigValue parse_toml_file(const std::filesystem::path&);

/// Parses a JSON file whose outermost value is an object.
ConfigValue parse_json_file(const std::filesystem::path&);

}  // namespace orrery::core
