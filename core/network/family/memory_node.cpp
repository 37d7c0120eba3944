// CPU ranks of one host exchange through its memory, which carries the sum of their devices' memory
// bandwidths:
//
//   rank ──▶ in ══▶ host ──▶ rank          host ┄┄▶ card

#include "core/network/family/families.h"

namespace orrery::core::family {

Attachment add_memory_node(int node, const NodeType& type, const std::vector<int>& ranks,
                           GraphBuilder& graph) {
  const int in = graph.vertex(kFabricLevel);
  const int host = graph.vertex(kHostLevel);
  add_ports(node, type, ranks, in, host, graph);
  const LinkCost memory{Seconds(0), type.device.memory_bandwidth * type.devices};
  graph.connect(in, host, {LinkKind::SharedUp, node, 0, memory});
  return {std::vector<int>(ranks.size(), host), std::vector<int>(ranks.size(), host)};
}

}  // namespace orrery::core::family
