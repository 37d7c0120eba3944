#pragma once
// Files that appear complete or not at all.

#include <cstddef>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <string_view>

namespace orrery::core {

/// Writes the pieces, one after the other, beside `path` under a temporary name, then renames it
/// over `path`. A device file or a pipe is written to, not replaced.
/// @throws SystemError naming path and reason (no such folder, disk full); `path` is then untouched
/// and the temporary file removed.
void write_file_atomically(const std::filesystem::path& path,
                           std::span<const std::string_view> pieces);
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

/// The whole file. One that is named but cannot be read is bad input.
/// @throws ConfigError naming path and reason, also where it has more than `at_most` bytes.
std::string read_whole_file(const std::filesystem::path& path,
                            std::size_t at_most = std::numeric_limits<std::size_t>::max());

}  // namespace orrery::core
