#pragma once
// gzip data (RFC 1952) in memory.

#include <string>
#include <string_view>

namespace orrery::core {

std::string gzip(std::string_view);

/// @throws ConfigError beginning with `path` when the data are cut off or damaged.
std::string gunzip(std::string_view, const std::string& path);

}  // namespace orrery::core
