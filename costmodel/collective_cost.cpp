#include "costmodel/collective_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/error.h"
#include "core/network/cube_mesh.h"

namespace orrery::costmodel {
namespace {

using core::Bytes;
using core::BytesPerSecond;
using core::CollectiveAlgorithm;
using core::CollectiveKind;
using core::CollectiveMethod;
using core::Seconds;

/// A group and the fabric under it, as a protocol's steps see them.
struct Ground {
  const GroupPlacement& where;
  const FabricCost& fabric;
  core::ProtocolCost protocol;

  Seconds inside() const { return fabric.inside * protocol.step; }
  Seconds across() const { return fabric.across * protocol.network_step; }
  Seconds leaf_crossing() const { return fabric.leaf_crossing * protocol.network_step; }
  /// Of the bytes between neighbours within a node.
  double wire_inside() const {
    return protocol.wire / (fabric.cube_mesh ? core::cube_mesh_share(where.members_per_node) : 1.0);
  }
};

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
Seconds around(const Ground& g) {
  const GroupPlacement& where = g.where;
  if (where.nodes == 1) return g.inside() * where.members_per_node;
  return g.inside() * (where.nodes * (where.members_per_node - 1)) + g.across() * where.nodes +
         g.leaf_crossing() * leaf_crossings(where, g.fabric);
}

struct RingShape {
  double steps, share;
};

RingShape ring_shape(CollectiveKind kind, double n, double ends) {
  switch (kind) {
    case CollectiveKind::AllReduce:
      return {2 * (n - 1), (2 * (n - 1) + ends) / n};
    case CollectiveKind::ReduceScatter:
    case CollectiveKind::AllGather:
      return {n - 1, (n - 1 + ends) / n};
    case CollectiveKind::Broadcast:
      return {n - 1, 1};
    case CollectiveKind::AllToAll:
      break;
  }
  core::check_failed("CollectiveKind", "no ring for this collective", __FILE__, __LINE__);
}

Seconds ring(CollectiveKind kind, Bytes bytes, const Ground& g) {
  const double n = g.where.members();
  const double m = g.where.members_per_node;
  const RingShape shape = ring_shape(kind, n, g.fabric.collectives.ring_ends);
  const Bytes inside = bytes * (shape.share * g.wire_inside());
  const Bytes across = bytes * (shape.share * g.protocol.wire);
  const bool open = kind == CollectiveKind::Broadcast;
  const Traffic traffic =
      g.where.nodes == 1 ? Traffic{inside, Bytes(0), inside * (open ? m - 1 : m)}
                         : Traffic{inside * ((m - 1) / m), across / m, inside * (m - 1) + across};
  Seconds latency = around(g) * (shape.steps / n);
  if (open) {
    // Nothing enters the root: the ring is open at its last edge.
    latency = around(g) - (g.where.nodes == 1 ? g.inside() : g.across());
    if (leaf_crossings(g.where, g.fabric) > 0) latency -= g.leaf_crossing();
  }
  return latency + transfer_time(traffic, g.where, g.fabric);
}

/// Of two trees over the nodes: the way up and down, and edges of the busiest node / 2.
struct Trees {
  Seconds latency;
  double share = 0;
};

Trees trees(const Ground& g) {
  const int k = g.where.nodes;
  if (k == 1) return {};
  int height = 0;
  for (int nodes = k; nodes > 1; nodes /= 2) ++height;
  const std::optional<double>& wire = g.fabric.collectives.tree_wire;
  const double edges = k == 2 ? 2 : k < 5 && !wire ? 3 : 4;
  const Seconds across =
      g.across() + (leaf_crossings(g.where, g.fabric) > 0 ? g.leaf_crossing() : Seconds(0));
  return {across * (2 * height), edges / 2 * wire.value_or(1.0) * g.protocol.wire};
}

Seconds tree_all_reduce(Bytes bytes, const Ground& g) {
  const double m = g.where.members_per_node;
  const Bytes chain = bytes * (g.wire_inside() * g.fabric.collectives.tree_wire.value_or(1.0));
  if (g.where.nodes == 1) {
    const bool counts_two = m > 2 || g.fabric.collectives.tree_wire;
    const Bytes port = chain * (counts_two ? 2.0 : 1.0);
    return g.inside() * (2 * (m - 1)) +
           transfer_time({port, Bytes(0), (m > 2 ? chain : port) * (2 * (m - 1))}, g.where,
                         g.fabric);
  }
  const Trees across = trees(g);
  const Traffic traffic{chain * (2 * (m - 1) / m), bytes * (across.share / m),
                        chain * (2 * (m - 1)) + bytes * across.share};
  return g.inside() * (2 * (m - 1)) + across.latency + transfer_time(traffic, g.where, g.fabric);
}

Seconds hierarchical(CollectiveKind kind, Bytes bytes, const Ground& g) {
  GroupPlacement inside = g.where;
  inside.nodes = 1;
  const Seconds half = ring(CollectiveKind::ReduceScatter, bytes, {inside, g.fabric, g.protocol});
  // All of a node's members send at once, each in its own ring.
  GroupPlacement rails = g.where;
  rails.members_per_node = 1;
  const Seconds between =
      ring(kind, bytes / g.where.members_per_node, {rails, g.fabric, g.protocol});
  return between + (kind == CollectiveKind::AllReduce ? 2 * half : half);
}

Seconds in_switch(Bytes bytes, const Ground& g) {
  const double m = g.where.members_per_node;
  const core::InSwitchCost& cost = *g.fabric.collectives.in_switch;
  const Bytes inside = bytes * ((1.0 + 1.0 / m) * cost.wire);
  const Trees across = trees(g);
  const Traffic traffic{inside, bytes * (across.share / m), inside * m + bytes * across.share};
  return cost.latency + across.latency + transfer_time(traffic, g.where, g.fabric);
}

/// α of the longest way between two members.
Seconds farthest(const Ground& g) {
  if (g.where.nodes == 1) return g.inside();
  const Seconds across =
      g.across() + (leaf_crossings(g.where, g.fabric) > 0 ? g.leaf_crossing() : Seconds(0));
  return g.where.members_per_node > 1 ? std::max(g.inside(), across) : across;
}

/// Every member sends `each` to every other.
Seconds every_pair(Bytes each, const Ground& g) {
  const double n = g.where.members();
  const double m = g.where.members_per_node;
  const Bytes one = each * g.protocol.wire;
  return farthest(g) +
         transfer_time({one * (m - 1), one * (n - m), one * (m * (n - 1))}, g.where, g.fabric);
}

/// What each member adds up takes.
Seconds sums(Bytes inputs, const Ground& g) {
  const auto& reduction = g.fabric.collectives.reduction;
  return reduction ? inputs / *reduction : Seconds(0);
}

Seconds direct(CollectiveKind kind, Bytes bytes, const Ground& g) {
  const double n = g.where.members();
  const double m = g.where.members_per_node;
  if (kind == CollectiveKind::Broadcast) {
    GroupPlacement root = g.where;
    root.users_per_card = 1;
    root.users_per_node = root.members_per_node;
    const Bytes one = bytes * g.protocol.wire;
    return farthest(g) +
           transfer_time({one * (m - 1), one * (n - m), one * (n - 1)}, root, g.fabric);
  }
  const Seconds moved = every_pair(bytes / n, g);
  if (kind == CollectiveKind::AllReduce) return 2 * moved + sums(bytes, g);
  return kind == CollectiveKind::ReduceScatter ? moved + sums(bytes, g) : moved;
}

bool two_levels(const GroupPlacement& where) {
  return where.nodes > 1 && where.members_per_node > 1;
}

Seconds time_of(CollectiveAlgorithm algorithm, CollectiveKind kind, Bytes bytes, const Ground& g) {
  switch (algorithm) {
    case CollectiveAlgorithm::Ring:
      return ring(kind, bytes, g);
    case CollectiveAlgorithm::Tree:
      ORRERY_CHECK(kind == CollectiveKind::AllReduce, "trees are for all-reduces");
      return tree_all_reduce(bytes, g);
    case CollectiveAlgorithm::Hierarchical:
      ORRERY_CHECK(two_levels(g.where) && kind != CollectiveKind::AllToAll &&
                       kind != CollectiveKind::Broadcast,
                   "no two levels in this collective");
      return hierarchical(kind, bytes, g);
    case CollectiveAlgorithm::Direct:
      return direct(kind, bytes, g);
    case CollectiveAlgorithm::Exchange:
      return every_pair(bytes, g) + sums(bytes * g.where.members(), g);
    case CollectiveAlgorithm::InSwitch:
    case CollectiveAlgorithm::InSwitchTree:
      ORRERY_CHECK(g.fabric.collectives.in_switch.has_value(), "a switch that makes no sums");
      return in_switch(bytes, g);
  }
  core::check_failed("CollectiveAlgorithm", "unknown algorithm", __FILE__, __LINE__);
}

FabricCost fabric_of(const core::NodeType& type, const core::Network& network) {
  FabricCost cost;
  cost.inside = type.device_link.latency;
  cost.port = type.device_link.bandwidth;
  cost.cube_mesh = type.fabric == core::NodeFabric::CubeMesh;
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
  slowest.cube_mesh |= other.cube_mesh;
  if (other.shared && (!slowest.shared || *other.shared < *slowest.shared)) {
    slowest.shared = other.shared;
  }
}

}  // namespace

std::optional<std::string> why_unpriced(const core::Cluster& cluster) {
  const core::Network& network = cluster.network;
  std::string what;
  switch (network.kind) {
    case core::NetworkKind::None:
    case core::NetworkKind::Star:
      break;
    case core::NetworkKind::FatTree:
      if (network.pods) what = "a fat tree of three levels";
      if (network.spreading == core::Spreading::Hash) what = "a fat tree that hashes";
      break;
    case core::NetworkKind::Rail:
    case core::NetworkKind::Torus:
    case core::NetworkKind::Dragonfly:
    case core::NetworkKind::Graph:
      what = fmt::format("a network of kind \"{}\"", core::network_name(network.kind));
      break;
  }
  for (const core::NodeGroup& group : cluster.groups) {
    if (group.type.devices_per_switch) what = "a PCIe tree of several switches";
  }
  if (what.empty()) return std::nullopt;
  return fmt::format(
      "cluster {} has {}, for whose collectives the cost model has no formula; \"orrery simulate\" "
      "plays plans on it. Estimates cover one node, stars and evenly spread fat trees of two "
      "levels",
      cluster.name, what);
}

FabricCost fabric_cost(const core::Cluster& cluster) {
  ORRERY_CHECK(!cluster.groups.empty(), "a cluster without nodes");
  if (const auto why = why_unpriced(cluster)) throw core::ConfigError(*why);
  FabricCost cost = fabric_of(cluster.groups.front().type, cluster.network);
  for (const core::NodeGroup& group : cluster.groups) {
    keep_slower(cost, fabric_of(group.type, cluster.network));
  }
  cost.collectives = cluster.collectives;
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

Seconds collective_time(CollectiveMethod method, CollectiveKind kind, Bytes bytes,
                        const GroupPlacement& where, const FabricCost& fabric) {
  if (where.members() < 2) return Seconds(0);
  const Ground ground{where, fabric, core::protocol_cost(fabric.collectives, method.protocol)};
  return fabric.collectives.base + time_of(method.algorithm, kind, bytes, ground);
}

CollectiveMethod choose_method(CollectiveKind kind, Bytes bytes, const GroupPlacement& alone,
                               const FabricCost& fabric) {
  if (alone.members() < 2) return {};
  const core::GroupShape shape{.one_node = alone.nodes == 1, .two_levels = two_levels(alone)};
  return core::fastest(
      core::methods_for(fabric.collectives, kind, bytes, shape),
      [&](CollectiveMethod method) { return collective_time(method, kind, bytes, alone, fabric); });
}

Seconds message_time(Bytes bytes, bool same_node, bool same_leaf, int users,
                     const FabricCost& fabric) {
  if (same_node) {
    const Seconds port =
        bytes / (fabric.port * (fabric.cube_mesh ? core::cube_mesh_message_share() : 1.0));
    return fabric.inside + (fabric.shared ? std::max(port, bytes * users / *fabric.shared) : port);
  }
  Seconds transfer = bytes * users / fabric.card;
  if (fabric.network_through_port) transfer = std::max(transfer, bytes / fabric.port);
  return fabric.across + (same_leaf ? Seconds(0) : fabric.leaf_crossing) + transfer;
}

Seconds ring_hop_time(Bytes bytes, const GroupPlacement& shared, const FabricCost& fabric) {
  if (shared.nodes == 1) return message_time(bytes, true, true, shared.users_per_node, fabric);
  // Of the members on a node, one sends out of it.
  const int users = std::max(1, shared.users_per_card / shared.members_per_node);
  const bool same_leaf =
      fabric.nodes_per_leaf == 0 || (shared.nodes - 1) * shared.node_stride < fabric.nodes_per_leaf;
  return message_time(bytes, false, same_leaf, users, fabric);
}

}  // namespace orrery::costmodel
