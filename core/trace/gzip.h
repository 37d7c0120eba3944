#pragma once
// gzip data (RFC 1952) in memory.

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

namespace orrery::core {

std::string gzip(std::string_view);

/// @throws ConfigError beginning with `path` when the data are cut off, damaged or unpack to more
/// than `at_most` bytes: a small file may unpack to any size.
std::string gunzip(std::string_view, const std::string& path,
                   std::size_t at_most = std::numeric_limits<std::size_t>::max());

}  // namespace orrery::core
