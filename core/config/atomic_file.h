#pragma once
// Files that appear complete or not at all.

#include <cstddef>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>

namespace orrery::core {

/// Writes `content` beside `path` under a temporary name, then renames it over `path`.
/// @throws SystemError naming path and reason (no such folder, disk full); `path` is then untouched
/// and the temporary file removed.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

/// The whole file.
/// @throws SystemError naming path and reason; ConfigError where it has more than `at_most` bytes.
std::string read_whole_file(const std::filesystem::path& path,
                            std::size_t at_most = std::numeric_limits<std::size_t>::max());

}  // namespace orrery::core
