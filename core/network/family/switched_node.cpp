// NVSwitch and the hybrid cube mesh:
//
//   rank ──▶ fabric ──▶ rank          rank ┄┄▶ card
//
// Every device has a port of its own into a fabric that never is full; cards hang on the devices. The
// cube mesh is taken as one port per device at the total of its links; what of it neighbours reach:
// core/network/cube_mesh.h.

#include "core/network/family/families.h"

namespace orrery::core::family {

void add_ports(int node, const NodeType& type, const std::vector<int>& ranks, int up, int down,
               GraphBuilder& graph) {
  const LinkCost port{type.device_link.latency / 2, type.device_link.bandwidth};
  for (std::size_t d = 0; d < ranks.size(); ++d) {
    const int device = static_cast<int>(d);
    graph.connect(ranks[d], up, {LinkKind::PortOut, node, device, port});
    graph.connect(down, ranks[d], {LinkKind::PortIn, node, device, port});
  }
}

Attachment add_switched_node(int node, const NodeType& type, const std::vector<int>& ranks,
                             GraphBuilder& graph) {
  const int fabric = graph.vertex(kFabricLevel);
  add_ports(node, type, ranks, fabric, fabric, graph);
  return {ranks, ranks};
}

}  // namespace orrery::core::family
