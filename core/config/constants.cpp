#include "core/config/constants.h"

#include <fmt/format.h>

#include <set>

#include "core/config/config_value.h"
#include "core/config/read.h"

namespace orrery::core {
namespace {

const std::string* text_in(const ConfigValue::Table& table, const std::string& key) {
  for (const auto& [name, value] : table) {
    if (name == key) return std::get_if<std::string>(&value.data);
  }
  return nullptr;
}

std::string written(const ConfigValue& value) {
  if (const auto* text = std::get_if<std::string>(&value.data)) return *text;
  if (const auto* number = std::get_if<double>(&value.data)) return fmt::format("{}", *number);
  if (const auto* whole = std::get_if<std::int64_t>(&value.data)) return fmt::format("{}", *whole);
  return {};
}

/// "float32 67 TFLOP/s, bfloat16 989.4 TFLOP/s", or the value alone.
std::string values_of(const ConfigValue::Table& table) {
  std::string all;
  for (const auto& [name, value] : table) {
    const std::string text = written(value);
    if (name == "source" || text.empty()) continue;
    if (name == "value") return text;
    all += (all.empty() ? "" : ", ") + name + " " + text;
  }
  return all;
}

void add(const ConfigValue& value, const std::string& name, std::vector<SourcedConstant>& found) {
  if (const auto* array = std::get_if<ConfigValue::Array>(&value.data)) {
    for (const ConfigValue& element : *array) add(element, name, found);
    return;
  }
  const auto* table = std::get_if<ConfigValue::Table>(&value.data);
  if (table == nullptr) return;
  if (const std::string* source = text_in(*table, "source")) {
    found.push_back({name, values_of(*table), *source});
  }
  for (const auto& [key, member] : *table) {
    add(member, name.empty() ? key : name + "." + key, found);
  }
}

/// The device files that a cluster's nodes name.
std::set<std::filesystem::path> device_files(const ConfigValue& cluster,
                                             const std::filesystem::path& file) {
  std::set<std::filesystem::path> files;
  const auto* root = std::get_if<ConfigValue::Table>(&cluster.data);
  if (root == nullptr) return files;
  for (const auto& [key, value] : *root) {
    const auto* nodes = std::get_if<ConfigValue::Array>(&value.data);
    if (key != "nodes" || nodes == nullptr) continue;
    for (const ConfigValue& node : *nodes) {
      const auto* table = std::get_if<ConfigValue::Table>(&node.data);
      const std::string* device = table == nullptr ? nullptr : text_in(*table, "device");
      if (device != nullptr) files.insert(resolve_beside(file, *device));
    }
  }
  return files;
}

}  // namespace

std::vector<SourcedConstant> read_constants(const std::filesystem::path& cluster_file) {
  std::vector<SourcedConstant> found;
  const ConfigValue cluster = parse_toml_file(cluster_file);
  const auto* root = std::get_if<ConfigValue::Table>(&cluster.data);
  if (const std::string* whole = root == nullptr ? nullptr : text_in(*root, "part_of")) {
    return read_constants(resolve_beside(cluster_file, *whole));
  }
  add(cluster, "", found);
  for (const auto& device : device_files(cluster, cluster_file)) {
    add(parse_toml_file(device), "device", found);
  }
  return found;
}

}  // namespace orrery::core
