#pragma once

#include <cstdint>
#include <string_view>

namespace orrery::engine {

/// 64-bit FNV-1a of `text`, going on from `hash`. Source: Fowler, Noll, Vo, draft-eastlake-fnv.
constexpr std::uint64_t fnv1a(std::string_view text, std::uint64_t hash = 0xcbf29ce484222325) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace orrery::engine
