#include "core/cluster.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace orrery::core {

int Cluster::nodes() const {
  int total = 0;
  for (const NodeGroup& group : groups) total += group.count;
  return total;
}

int Cluster::devices() const {
  int total = 0;
  for (const NodeGroup& group : groups) total += group.count * group.type.devices;
  return total;
}

const NodeType& Cluster::node_type(int node) const {
  ORRERY_CHECK(node >= 0, "a node index is never negative");
  for (const NodeGroup& group : groups) {
    if (node < group.count) return group.type;
    node -= group.count;
  }
  ORRERY_CHECK(false, "node index beyond the cluster's last node");
}

int Cluster::node_of(int rank) const {
  ORRERY_CHECK(rank >= 0, "a rank is never negative");
  int first_node = 0;
  for (const NodeGroup& group : groups) {
    const int ranks = group.count * group.type.devices;
    if (rank < ranks) return first_node + rank / group.type.devices;
    rank -= ranks;
    first_node += group.count;
  }
  ORRERY_CHECK(false, "rank beyond the cluster's last device");
}

std::optional<Cluster> try_part_of(const Cluster& cluster, int devices) {
  Cluster part = cluster;
  part.groups.clear();
  int left = devices;
  for (NodeGroup group : cluster.groups) {
    if (left >= group.type.devices) {
      group.count = std::min(group.count, left / group.type.devices);
    } else if (left > 0 && part.groups.empty()) {
      group.count = 1;
      group.type.cores = std::max(1, group.type.cores * left / group.type.devices);
      if (group.type.network_cards > 0) {
        group.type.network_cards =
            std::max(1, group.type.network_cards * left / group.type.devices);
      }
      group.type.devices = left;
    } else {
      break;
    }
    left -= group.count * group.type.devices;
    part.groups.push_back(std::move(group));
  }
  if (left != 0) return std::nullopt;
  if (part.nodes() == 1) part.network = Network{};
  return part;
}

Cluster part_of(const Cluster& cluster, int devices) {
  std::optional<Cluster> part = try_part_of(cluster, devices);
  ORRERY_CHECK(part.has_value(), "a part of a cluster is whole nodes, or a part of one");
  return *std::move(part);
}

}  // namespace orrery::core
