#include "study/validate/machines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/config/read.h"
#include "core/config/table_reader.h"

namespace orrery::study {

Machines read_machines(const std::filesystem::path& path) {
  const core::ConfigValue root = core::parse_toml_file(path);
  core::TableReader reader(path.string(), root, core::Sources::Required);
  Machines machines;
  for (core::TableReader& entry : reader.tables("machine")) {
    const std::string label = entry.text("label");
    const auto cluster = core::read_cluster(core::resolve_beside(path, entry.text("cluster")));
    Machine machine{cluster.groups.front().type, cluster.network, cluster.collectives};
    if (entry.has("device")) {
      machine.node.device = core::read_device(core::resolve_beside(path, entry.text("device")));
    }
    entry.text("source");
    entry.finish();
    if (!machines.emplace(label, machine).second) entry.fail("label", "is there twice");
  }
  reader.finish();
  return machines;
}

core::Cluster cluster_of(const Machine& machine, int devices, int per_node,
                         const std::optional<core::BytesPerSecond>& node_network) {
  core::Cluster cluster;
  core::NodeType node = machine.node;
  node.devices = std::min(per_node, devices);
  cluster.name = fmt::format("{} x {}", devices, node.device.name);
  if (node_network) {
    // Cards of the machine's own rate where they make up the total, one card otherwise.
    const double cards = *node_network / node.network_card.bandwidth;
    node.network_cards = std::max(1, static_cast<int>(std::lround(cards)));
    node.network_card.bandwidth = *node_network * (1.0 / node.network_cards);
  }
  node.network_cards = std::min(node.network_cards, std::max(1, node.devices));
  cluster.network = machine.network;
  cluster.collectives = machine.collectives;
  cluster.groups = {{node, (devices + node.devices - 1) / node.devices}};
  return cluster;
}

}  // namespace orrery::study
