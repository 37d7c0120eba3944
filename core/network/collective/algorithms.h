#pragma once
// The algorithms behind core/network/collective_algorithm.h, one file each.

#include <vector>

#include "core/network/collective_algorithm.h"

namespace orrery::core::collective {

/// Members of one collective node by node: nodes in order of first appearance, members within a
/// node in the group's order.
using Nodes = std::vector<std::vector<Rank>>;

Nodes members_by_node(const std::vector<Rank>& members, const Topology&);

/// Channels of rings and trees: the least number of members on a node, 1 on a single node (where
/// every channel would use the same ports alike).
int channels_of(const Nodes&);

/// Where channel `c` of `channels` enters a node of `members`: spread evenly over them.
std::size_t entry_of(std::size_t members, int c, int channels);

/// Adds transfers with equal ends together; sorted by (from, to).
std::vector<Transfer> merged(std::vector<Transfer>);

/// What a step between two ranks takes: α and bytes in a protocol.
class Steps {
 public:
  Steps(const Topology& topology, Protocol protocol)
      : topology_(topology), cost_(protocol_cost(topology.collectives(), protocol)) {}

  const Topology& topology() const { return topology_; }
  const Collectives& costs() const { return topology_.collectives(); }
  /// α of a step.
  Seconds latency(Rank from, Rank to) const;
  /// Bytes of the buffer as bytes on the route.
  Bytes wire(Bytes bytes) const { return bytes * cost_.wire; }
  /// Likewise between neighbours among `members` of one node: in a cube mesh a ring has only some
  /// of a port's links (core/network/cube_mesh.h).
  Bytes inside(Bytes bytes, const std::vector<Rank>& members) const;

 private:
  const Topology& topology_;
  ProtocolCost cost_;
};

// Each of these is for at least two members.
std::vector<CollectivePhase> ring(CollectiveKind, const Nodes&, Bytes, const Steps&);
std::vector<CollectivePhase> tree_all_reduce(const Nodes&, Bytes, const Steps&);
std::vector<CollectivePhase> hierarchical(CollectiveKind, const Nodes&, Bytes, const Steps&);
std::vector<CollectivePhase> direct(CollectiveKind, const std::vector<Rank>&, Bytes, const Steps&);
std::vector<CollectivePhase> exchange(const std::vector<Rank>&, Bytes, const Steps&);
std::vector<CollectivePhase> in_switch(const Nodes&, Bytes, const Steps&);

/// Two trees over the nodes, each for half of `bytes`, between one member of each node, its head:
/// transfers there and back go to `transfers`. Gives the latency of the way up and down.
Seconds two_trees(const std::vector<Rank>& heads, Bytes bytes, const Steps&,
                  std::vector<Transfer>& transfers);

}  // namespace orrery::core::collective
