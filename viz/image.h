#pragma once
// A picture in memory.

#include <cstdint>
#include <vector>

namespace orrery::viz {

/// 8-bit RGBA, rows from the top.
struct Image {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> rgba;
};

}  // namespace orrery::viz
