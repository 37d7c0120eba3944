#pragma once
// Faults of an output path that can be told before hours of work are lost to them.

#include <filesystem>

namespace orrery::app {

/// @throws ConfigError when the folder of `path` does not exist or cannot be written to, or `path`
/// is itself a folder or empty.
void check_writable(const std::filesystem::path& path);

}  // namespace orrery::app
