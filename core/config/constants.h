#pragma once
// The constants of a cluster's files with where each comes from, as they are written: for people who
// ask what an estimate rests on.

#include <filesystem>
#include <string>
#include <vector>

namespace orrery::core {

struct SourcedConstant {
  std::string name;    ///< "nodes.device_link.bandwidth", "peak".
  std::string value;   ///< As written; of a table with one source all of its values.
  std::string source;  ///< The file's own words.
};

/// Those of a cluster file and of the device files that it names, in their order.
/// @throws ConfigError as read_cluster() for files that are no TOML.
std::vector<SourcedConstant> read_constants(const std::filesystem::path& cluster_file);

}  // namespace orrery::core
