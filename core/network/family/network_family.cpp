#include <cstdint>

#include "core/error.h"
#include "core/network/family/families.h"
#include "core/split_mix.h"

namespace orrery::core::family {

void NetworkFamily::append_ways(const SwitchPair& /*pair*/, Route& /*route*/) const {
  ORRERY_CHECK(false, "a tree's switches meet further up");
}

std::unique_ptr<NetworkFamily> network_family(const Network& network) {
  switch (network.kind) {
    case NetworkKind::None:
      return nullptr;
    case NetworkKind::Star:
      return star();
    case NetworkKind::FatTree:
      ORRERY_CHECK(network.nodes_per_leaf > 0, "a fat tree's leaf has no nodes");
      return network.spreading == Spreading::Hash ? hashed_fat_tree(network) : fat_tree(network);
    case NetworkKind::Rail:
      ORRERY_CHECK(network.nodes_per_leaf > 0, "a rail's leaf has no nodes");
      return rails(network);
    case NetworkKind::Torus:
      return torus(network);
    case NetworkKind::Dragonfly:
      return dragonfly(network);
    case NetworkKind::Graph:
      return switch_graph(network);
  }
  ORRERY_CHECK(false, "unknown kind of network");
}

LinkCost reached(LinkCost cost, double efficiency) {
  return {cost.latency, cost.bandwidth * efficiency};
}

int hashed(std::uint64_t hash, int level, int count) {
  return static_cast<int>(mix(hash + static_cast<std::uint64_t>(level)) %
                          static_cast<std::uint64_t>(count));
}

}  // namespace orrery::core::family
