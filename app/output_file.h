#pragma once
// Faults of an output path that can be told before hours of work are lost to them.

#include <filesystem>
#include <vector>

namespace orrery::app {

/// @throws ConfigError when the folder of `path` does not exist or cannot be written to, or `path`
/// is itself a folder or empty, or one of the files that are read.
void check_writable(const std::filesystem::path& path,
                    const std::vector<std::filesystem::path>& read = {});

}  // namespace orrery::app
