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

Seconds route_latency(const Topology&, Rank from, Rank to);

// Each of these is for at least two members.
std::vector<CollectivePhase> ring(CollectiveKind, const Nodes&, Bytes, const Topology&);
std::vector<CollectivePhase> tree_all_reduce(const Nodes&, Bytes, const Topology&);
std::vector<CollectivePhase> hierarchical(CollectiveKind, const Nodes&, Bytes, const Topology&);
std::vector<CollectivePhase> direct(CollectiveKind, const std::vector<Rank>&, Bytes,
                                    const Topology&);

}  // namespace orrery::core::collective
