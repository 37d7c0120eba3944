#include "core/interconnect.h"

#include "core/error.h"

namespace orrery::core {

std::string_view network_name(NetworkKind kind) {
  switch (kind) {
    case NetworkKind::None:
      return "none";
    case NetworkKind::Star:
      return "star";
    case NetworkKind::FatTree:
      return "fat-tree";
    case NetworkKind::Rail:
      return "rail";
    case NetworkKind::Torus:
      return "torus";
    case NetworkKind::Dragonfly:
      return "dragonfly";
    case NetworkKind::Graph:
      return "graph";
  }
  ORRERY_CHECK(false, "unknown NetworkKind");
}

}  // namespace orrery::core
