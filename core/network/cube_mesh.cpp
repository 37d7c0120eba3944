#include "core/network/cube_mesh.h"

#include <array>
#include <cstddef>

namespace orrery::core {

double cube_mesh_share(int members) {
  constexpr double kLinks = 6;
  constexpr std::array<double, 7> kRingsOf = {1, 2, 4, 1.65, 2, 4, 6};  // 2 to 8 devices.
  const auto at = static_cast<std::size_t>(members - 2);
  if (members < 2 || at >= kRingsOf.size()) return 1.0;
  return kRingsOf[at] / kLinks;
}

}  // namespace orrery::core
