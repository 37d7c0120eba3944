#pragma once
// The families of nodes and of networks, one file each beside this one.

#include <cstdint>
#include <memory>
#include <vector>

#include "core/cluster.h"
#include "core/network/graph_builder.h"
#include "core/network/link.h"

namespace orrery::core::family {

/// Where a device's network traffic leaves its node's fabric, and where it enters; vertices, by device.
struct Attachment {
  std::vector<int> out, in;
};

/// Ports between the ranks and `up` (outwards) and `down` (inwards), those of all devices alike.
void add_ports(int node, const NodeType&, const std::vector<int>& ranks, int up, int down,
               GraphBuilder&);

// Nodes: adds the fabric between the vertices of a node's ranks.
Attachment add_switched_node(int node, const NodeType&, const std::vector<int>& ranks,
                             GraphBuilder&);
Attachment add_pcie_node(int node, const NodeType&, const std::vector<int>& ranks, GraphBuilder&);
Attachment add_memory_node(int node, const NodeType&, const std::vector<int>& ranks, GraphBuilder&);

/// The two ends of a route across switches: their numbers, and a number that is the pair's own.
struct SwitchPair {
  int from = 0, to = 0;
  std::uint64_t hash = 0;
};

/// A family of networks. Its switches are vertices above the cards; routes climb to where both ends
/// meet, or, where climbing does not lead there, take the family's own ways between switches.
class NetworkFamily {
 public:
  virtual ~NetworkFamily() = default;

  /// The vertex of the switch that a node's card plugs into, added when it is first asked for.
  virtual int switch_of(int node, const NodeType&, int card, GraphBuilder&) = 0;

  /// Appends the ways between two switches that do not meet further up.
  virtual void append_ways(const SwitchPair&, Route&) const;
};

/// The family that a network is of; null for NetworkKind::None.
std::unique_ptr<NetworkFamily> network_family(const Network&);

std::unique_ptr<NetworkFamily> star();
std::unique_ptr<NetworkFamily> fat_tree(const Network&);
std::unique_ptr<NetworkFamily> hashed_fat_tree(const Network&);
std::unique_ptr<NetworkFamily> rails(const Network&);
std::unique_ptr<NetworkFamily> torus(const Network&);
std::unique_ptr<NetworkFamily> dragonfly(const Network&);
std::unique_ptr<NetworkFamily> switch_graph(const Network&);

/// `cost` with its bandwidth as far as transfers reach it.
LinkCost reached(LinkCost cost, double efficiency);

/// One of `count`, by the bits of a hash that `level` picks.
int hashed(std::uint64_t hash, int level, int count);

}  // namespace orrery::core::family
