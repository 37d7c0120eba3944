#pragma once
// Closed forms of the collectives: time from a group's placement alone, O(1) whatever its size.
//
// n = k·m members: m on each of k nodes, S = Collective::bytes, α_i and α_x the latency of a
// message within a node and between nodes. Per member, the bytes sent within its node and out of it
// are
//
//   ring           steps·(edges·α)/n             q·(m−1)/m     q/m      q = 2(n−1)/n·S (all-reduce),
//                                                              (n−1)/n·S (scatter, gather)
//   tree           2((m−1)·α_i + ⌊log2 k⌋·α_x)   2(m−1)/m·S    d/(2m)·S   d = 2, 3, 4 for k = 2,
//                                                              3–4, 5+
//   hierarchical   ring in each node, rings of S/m across nodes, ring in each node
//   direct         α + (n−1)/n·S to all others
//   exchange       α + S to all others
//   in the switch  latency + (1 + 1/m)·S; with trees of S/m between nodes
//
// and the time is latency + max over links (bytes · users of the link / β) + sums. The descriptions
// and what the library adds are core/network/collective_algorithm.h's; a test holds the two equal to
// 1e-9.

#include <compare>
#include <optional>
#include <string>
#include <vector>

#include "core/cluster.h"
#include "core/network/collective_algorithm.h"
#include "core/program.h"
#include "core/units.h"

namespace orrery::costmodel {

/// α and β of a cluster's links, as core/network/topology.h lays them out.
struct FabricCost {
  core::Seconds inside;                        ///< α within a node.
  core::Seconds across;                        ///< α between nodes under one switch.
  core::Seconds leaf_crossing;                 ///< What a message between leaves adds to it.
  core::BytesPerSecond port;                   ///< One device's.
  std::optional<core::BytesPerSecond> shared;  ///< Host bridge or memory of one node.
  core::BytesPerSecond card;                   ///< Zero in a cluster of one node.
  bool network_through_port = false;           ///< Network traffic passes port and `shared`.
  int nodes_per_leaf = 0;                      ///< 0: one switch.
  double oversubscription = 1.0;
  bool cube_mesh = false;  ///< core/network/cube_mesh.h.
  core::Collectives collectives;
};

/// Why the closed forms do not cover a cluster's network, in words; absent where they do.
std::optional<std::string> why_unpriced(const core::Cluster&);

/// Of a cluster; where its nodes differ, the slowest of each.
/// @throws ConfigError where why_unpriced() says something
FabricCost fabric_cost(const core::Cluster&);

/// Where the members of a group are.
struct GroupPlacement {
  int nodes = 1;
  int members_per_node = 1;  ///< The same on each.
  int node_stride = 1;       ///< Nodes from one to the next.
  int users_per_card = 1;    ///< Devices that send through the busiest card at once.
  int users_per_node = 1;    ///< Devices of one node that send at once.

  int members() const { return nodes * members_per_node; }
  auto operator<=>(const GroupPlacement&) const = default;
};

/// Whether only this group communicates, or every device of its nodes does (in sibling groups).
enum class Company { Alone, WholeNodes };

/// Empty where nodes hold different numbers of members: no closed form then.
std::optional<GroupPlacement> placement_of(const std::vector<core::Rank>& members,
                                           const core::Cluster&, Company);

/// Time of one method. Zero for one member.
core::Seconds collective_time(core::CollectiveMethod, core::CollectiveKind, core::Bytes,
                              const GroupPlacement&, const FabricCost&);

/// What the cluster's library takes: core/network/collective_choice.h with the closed forms.
core::CollectiveMethod choose_method(core::CollectiveKind, core::Bytes, const GroupPlacement& alone,
                                     const FabricCost&);

/// A message between two ranks while `users` devices send through the busiest link of its route.
core::Seconds message_time(core::Bytes, bool same_node, bool same_leaf, int users,
                           const FabricCost&);

/// A message of every member of a ring to the next, all at once and in sibling groups too. The slowest
/// of them: across nodes where the ring crosses any.
core::Seconds ring_hop_time(core::Bytes, const GroupPlacement& shared, const FabricCost&);

}  // namespace orrery::costmodel
