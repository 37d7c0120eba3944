#include "app/output_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include "core/error.h"

namespace orrery::app {

void check_writable(const std::filesystem::path& path,
                    const std::vector<std::filesystem::path>& read) {
  if (path.empty()) throw core::ConfigError("an output file's name is empty");
  std::error_code unknown;
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (std::filesystem::is_directory(path, unknown)) {
    throw core::ConfigError(fmt::format("{}: is a folder; name a file", path.string()));
  }
  if (!std::filesystem::is_directory(folder, unknown)) {
    throw core::ConfigError(
        fmt::format("{}: there is no folder {}", path.string(), folder.string()));
  }
  if (access(folder.c_str(), W_OK) != 0) {
    throw core::ConfigError(
        fmt::format("{}: the folder {} cannot be written to", path.string(), folder.string()));
  }
  for (const std::filesystem::path& input : read) {
    if (std::filesystem::equivalent(path, input, unknown)) {
      throw core::ConfigError(
          fmt::format("{}: is read, and would be lost; name another file to write", path.string()));
    }
  }
}

}  // namespace orrery::app
