#include "core/cluster.h"

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

}  // namespace orrery::core
