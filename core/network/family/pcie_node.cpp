// PCIe trees. All devices behind one bridge, which messages between them cross too:
//
//   rank ──▶ up ══▶ host ══▶ down ──▶ rank                 host ┄┄▶ card
//
// or behind several PCIe switches, each with its way to the host; messages under one stay there:
//
//   rank ──▶ switch ──▶ rank       switch ══▶ host ══▶ switch       host ┄┄▶ card

#include <algorithm>

#include "core/network/family/families.h"

namespace orrery::core::family {
namespace {

Attachment all_at(int host, std::size_t devices) {
  return {std::vector<int>(devices, host), std::vector<int>(devices, host)};
}

}  // namespace

Attachment add_pcie_node(int node, const NodeType& type, const std::vector<int>& ranks,
                         GraphBuilder& graph) {
  const LinkCost bridge{Seconds(0), type.device_link.bandwidth};
  if (!type.devices_per_switch) {
    const int up = graph.vertex(kFabricLevel);
    const int down = graph.vertex(kFabricLevel);
    const int host = graph.vertex(kHostLevel);
    add_ports(node, type, ranks, up, down, graph);
    graph.connect(up, host, {LinkKind::SharedUp, node, 0, bridge});
    graph.connect(host, down, {LinkKind::SharedDown, node, 0, bridge});
    return all_at(host, ranks.size());
  }
  const auto under = static_cast<std::size_t>(*type.devices_per_switch);
  const int host = graph.vertex(kHostLevel);
  const LinkCost port{type.device_link.latency / 2, type.device_link.bandwidth};
  for (std::size_t first = 0; first < ranks.size(); first += under) {
    const int at = graph.vertex(kFabricLevel);
    for (std::size_t d = first; d < std::min(ranks.size(), first + under); ++d) {
      const int device = static_cast<int>(d);
      graph.connect(ranks[d], at, {LinkKind::PortOut, node, device, port});
      graph.connect(at, ranks[d], {LinkKind::PortIn, node, device, port});
    }
    const int which = static_cast<int>(first / under);
    graph.connect(at, host, {LinkKind::SharedUp, node, which, bridge});
    graph.connect(host, at, {LinkKind::SharedDown, node, which, bridge});
  }
  return all_at(host, ranks.size());
}

}  // namespace orrery::core::family
