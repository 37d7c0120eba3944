#include "costmodel/collective_cost.h"

#include <algorithm>
#include <map>

#include "core/error.h"

namespace orrery::costmodel {
namespace {

using core::Bytes;
using core::BytesPerSecond;
using core::CollectiveAlgorithm;
using core::CollectiveKind;
using core::Seconds;

/// Bytes that the busiest member sends within its node and to other nodes, and what the members of
/// one node send together.
struct Traffic {
  Bytes inside, across;
  Bytes node;
};

/// Of the nodes' sends, the share that also crosses a leaf's trunk, relative to its capacity.
double trunk_factor(const GroupPlacement& where, const FabricCost& fabric) {
  if (fabric.nodes_per_leaf == 0) return 0.0;
  const double crossing =
      std::min(1.0, static_cast<double>(where.node_stride) / fabric.nodes_per_leaf);
  return crossing * fabric.oversubscription;
}

/// max over links of bytes / β.
Seconds transfer_time(const Traffic& traffic, const GroupPlacement& where,
                      const FabricCost& fabric) {
  const Bytes through_port =
      fabric.network_through_port ? traffic.inside + traffic.across : traffic.inside;
  Seconds longest = through_port / fabric.port;
  if (fabric.shared) {
    const double groups =
        static_cast<double>(where.users_per_node) / static_cast<double>(where.members_per_node);
    longest = std::max(longest, traffic.node * groups / *fabric.shared);
  }
  if (traffic.across.value > 0) {
    const Seconds card = traffic.across * where.users_per_card / fabric.card;
    longest = std::max({longest, card, card * trunk_factor(where, fabric)});
  }
  return longest;
}

/// Edges between consecutive nodes of a ring that leave a leaf, for nodes from a leaf's first on.
int leaf_crossings(const GroupPlacement& where, const FabricCost& fabric) {
  if (fabric.nodes_per_leaf == 0) return 0;
  if (where.node_stride >= fabric.nodes_per_leaf) return where.nodes;
  const int leaves = (where.nodes - 1) * where.node_stride / fabric.nodes_per_leaf + 1;
  return leaves > 1 ? leaves : 0;
}

/// Σ α over the edges of a ring through all members.
Seconds around(const GroupPlacement& where, const FabricCost& fabric) {
  if (where.nodes == 1) return fabric.inside * where.members_per_node;
  return fabric.inside * (where.nodes * (where.members_per_node - 1)) +
         fabric.across * where.nodes + fabric.leaf_crossing * leaf_crossings(where, fabric);
}

struct RingShape {
  double steps, share;
};

RingShape ring_shape(CollectiveKind kind, double n) {
  switch (kind) {
    case CollectiveKind::AllReduce:
      return {2 * (n - 1), 2 * (n - 1) / n};
    case CollectiveKind::ReduceScatter:
    case CollectiveKind::AllGather:
      return {n - 1, (n - 1) / n};
    case CollectiveKind::Broadcast:
      return {n - 1, 1};
    case CollectiveKind::AllToAll:
      break;
  }
  core::check_failed("CollectiveKind", "no ring for this collective", __FILE__, __LINE__);
}

Seconds ring(CollectiveKind kind, Bytes bytes, const GroupPlacement& where,
             const FabricCost& fabric) {
  const double n = where.members();
  const double m = where.members_per_node;
  const RingShape shape = ring_shape(kind, n);
  const Bytes q = bytes * shape.share;
  const bool open = kind == CollectiveKind::Broadcast;
  const Traffic traffic = where.nodes == 1 ? Traffic{q, Bytes(0), q * (open ? m - 1 : m)}
                                           : Traffic{q * ((m - 1) / m), q / m, q * m};
  Seconds latency = around(where, fabric) * (shape.steps / n);
  if (open) {
    // Nothing enters the root: the ring is open at its last edge.
    latency = around(where, fabric) - (where.nodes == 1 ? fabric.inside : fabric.across);
    if (leaf_crossings(where, fabric) > 0) latency -= fabric.leaf_crossing;
  }
  return latency + transfer_time(traffic, where, fabric);
}

Seconds tree_all_reduce(Bytes bytes, const GroupPlacement& where, const FabricCost& fabric) {
  const double m = where.members_per_node;
  if (where.nodes == 1) {
    const double neighbours = m > 2 ? 2 : 1;
    return fabric.inside * (2 * (m - 1)) +
           transfer_time({bytes * neighbours, Bytes(0), bytes * (2 * (m - 1))}, where, fabric);
  }
  int height = 0;
  for (int nodes = where.nodes; nodes > 1; nodes /= 2) ++height;
  // Edges of the busiest node in both trees together.
  const double degree = where.nodes == 2 ? 2 : where.nodes < 5 ? 3 : 4;
  const Seconds across =
      fabric.across + (leaf_crossings(where, fabric) > 0 ? fabric.leaf_crossing : Seconds(0));
  const Traffic traffic{bytes * (2 * (m - 1) / m), bytes * (degree / (2 * m)),
                        bytes * (2 * (m - 1) + degree / 2)};
  return 2 * ((m - 1) * fabric.inside + height * across) + transfer_time(traffic, where, fabric);
}

Seconds hierarchical(CollectiveKind kind, Bytes bytes, const GroupPlacement& where,
                     const FabricCost& fabric) {
  GroupPlacement inside = where;
  inside.nodes = 1;
  const Seconds half = ring(CollectiveKind::ReduceScatter, bytes, inside, fabric);
  // All of a node's members send at once, each in its own ring.
  GroupPlacement rails = where;
  rails.members_per_node = 1;
  const Seconds between = ring(kind, bytes / where.members_per_node, rails, fabric);
  return between + (kind == CollectiveKind::AllReduce ? 2 * half : half);
}

Seconds direct(CollectiveKind kind, Bytes bytes, const GroupPlacement& where,
               const FabricCost& fabric) {
  const double n = where.members();
  const double m = where.members_per_node;
  Seconds latency = where.nodes == 1 ? fabric.inside : std::max(fabric.inside, fabric.across);
  if (leaf_crossings(where, fabric) > 0) latency += fabric.leaf_crossing;
  if (kind == CollectiveKind::Broadcast) {
    GroupPlacement root = where;
    root.users_per_card = 1;
    root.users_per_node = root.members_per_node;
    return latency +
           transfer_time({bytes * (m - 1), bytes * (n - m), bytes * (n - 1)}, root, fabric);
  }
  const Traffic traffic{bytes * ((m - 1) / n), bytes * ((n - m) / n), bytes * (m * (n - 1) / n)};
  const Seconds once = latency + transfer_time(traffic, where, fabric);
  return kind == CollectiveKind::AllReduce ? 2 * once : once;
}

bool two_levels(CollectiveKind kind, const GroupPlacement& where) {
  return kind != CollectiveKind::AllToAll && kind != CollectiveKind::Broadcast && where.nodes > 1 &&
         where.members_per_node > 1;
}

FabricCost fabric_of(const core::NodeType& type, const core::Network& network) {
  FabricCost cost;
  cost.inside = type.device_link.latency;
  cost.port = type.device_link.bandwidth;
  cost.network_through_port =
      type.fabric == core::NodeFabric::PcieTree || type.fabric == core::NodeFabric::Memory;
  if (type.fabric == core::NodeFabric::PcieTree) cost.shared = type.device_link.bandwidth;
  if (type.fabric == core::NodeFabric::Memory) {
    cost.shared = type.device.memory_bandwidth * type.devices;
  }
  if (network.kind == core::NetworkKind::None) return cost;
  cost.across = type.network_card.latency + 2 * network.hop_latency;
  if (cost.network_through_port) cost.across += type.device_link.latency;
  const int cards = std::min(type.network_cards, type.devices);
  cost.card = type.network_card.bandwidth *
              (network.efficiency * type.network_cards / static_cast<double>(cards));
  if (network.kind == core::NetworkKind::FatTree) {
    cost.leaf_crossing = 2 * network.hop_latency;
    cost.nodes_per_leaf = network.nodes_per_leaf;
    cost.oversubscription = network.oversubscription;
  }
  return cost;
}

void keep_slower(FabricCost& slowest, const FabricCost& other) {
  slowest.inside = std::max(slowest.inside, other.inside);
  slowest.across = std::max(slowest.across, other.across);
  slowest.port = std::min(slowest.port, other.port);
  slowest.card = std::min(slowest.card, other.card);
  slowest.network_through_port |= other.network_through_port;
  if (other.shared && (!slowest.shared || *other.shared < *slowest.shared)) {
    slowest.shared = other.shared;
  }
}

}  // namespace

FabricCost fabric_cost(const core::Cluster& cluster) {
  ORRERY_CHECK(!cluster.groups.empty(), "a cluster without nodes");
  FabricCost cost = fabric_of(cluster.groups.front().type, cluster.network);
  for (const core::NodeGroup& group : cluster.groups) {
    keep_slower(cost, fabric_of(group.type, cluster.network));
  }
  return cost;
}

std::optional<GroupPlacement> placement_of(const std::vector<core::Rank>& members,
                                           const core::Cluster& cluster, Company company) {
  ORRERY_CHECK(!members.empty(), "a group without members");
  std::map<int, int> members_on;               // node -> members
  std::map<std::pair<int, int>, int> card_of;  // (node, card) -> members
  int first_of_node = 0;
  int node = 0;
  // Members are in rank order or not; ranks are numbered node by node.
  std::vector<int> sorted;
  sorted.reserve(members.size());
  for (const core::Rank rank : members) sorted.push_back(rank.value);
  std::sort(sorted.begin(), sorted.end());
  const core::NodeType* type = &cluster.node_type(0);
  for (const int rank : sorted) {
    while (rank >= first_of_node + type->devices) {
      first_of_node += type->devices;
      type = &cluster.node_type(++node);
    }
    const int cards = std::max(1, std::min(type->network_cards, type->devices));
    ++members_on[node];
    ++card_of[{node, (rank - first_of_node) * cards / type->devices}];
  }
  const int each = members_on.begin()->second;
  GroupPlacement where;
  where.nodes = static_cast<int>(members_on.size());
  where.members_per_node = each;
  for (const auto& [at, count] : members_on) {
    if (count != each) return std::nullopt;
    const core::NodeType& there = cluster.node_type(at);
    const int cards = std::max(1, std::min(there.network_cards, there.devices));
    where.users_per_node =
        std::max(where.users_per_node, company == Company::Alone ? count : there.devices);
    if (company == Company::WholeNodes) {
      where.users_per_card = std::max(where.users_per_card, (there.devices + cards - 1) / cards);
    }
  }
  for (const auto& [card, count] : card_of) {
    where.users_per_card = std::max(where.users_per_card, count);
  }
  if (where.nodes > 1) {
    where.node_stride =
        (members_on.rbegin()->first - members_on.begin()->first) / (where.nodes - 1);
  }
  return where;
}

Seconds collective_time(CollectiveAlgorithm algorithm, CollectiveKind kind, Bytes bytes,
                        const GroupPlacement& where, const FabricCost& fabric) {
  if (where.members() < 2) return Seconds(0);
  switch (algorithm) {
    case CollectiveAlgorithm::Ring:
      return ring(kind, bytes, where, fabric);
    case CollectiveAlgorithm::Tree:
      ORRERY_CHECK(kind == CollectiveKind::AllReduce, "trees are for all-reduces");
      return tree_all_reduce(bytes, where, fabric);
    case CollectiveAlgorithm::Hierarchical:
      ORRERY_CHECK(two_levels(kind, where), "no two levels in this group");
      return hierarchical(kind, bytes, where, fabric);
    case CollectiveAlgorithm::Direct:
      return direct(kind, bytes, where, fabric);
  }
  core::check_failed("CollectiveAlgorithm", "unknown algorithm", __FILE__, __LINE__);
}

CollectiveAlgorithm choose_algorithm(CollectiveKind kind, Bytes bytes, const GroupPlacement& alone,
                                     const FabricCost& fabric) {
  if (kind == CollectiveKind::AllToAll) return CollectiveAlgorithm::Direct;
  CollectiveAlgorithm best = CollectiveAlgorithm::Ring;
  if (alone.members() < 2) return best;
  Seconds least = collective_time(best, kind, bytes, alone, fabric);
  const auto consider = [&](CollectiveAlgorithm other) {
    const Seconds time = collective_time(other, kind, bytes, alone, fabric);
    if (time >= least) return;
    best = other;
    least = time;
  };
  if (kind == CollectiveKind::AllReduce) consider(CollectiveAlgorithm::Tree);
  if (two_levels(kind, alone)) consider(CollectiveAlgorithm::Hierarchical);
  return best;
}

Seconds message_time(Bytes bytes, bool same_node, bool same_leaf, int users,
                     const FabricCost& fabric) {
  if (same_node) {
    const Seconds port = bytes / fabric.port;
    return fabric.inside + (fabric.shared ? std::max(port, bytes * users / *fabric.shared) : port);
  }
  Seconds transfer = bytes * users / fabric.card;
  if (fabric.network_through_port) transfer = std::max(transfer, bytes / fabric.port);
  return fabric.across + (same_leaf ? Seconds(0) : fabric.leaf_crossing) + transfer;
}

}  // namespace orrery::costmodel
