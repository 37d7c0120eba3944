#pragma once
// The cluster as a directed graph. Vertices are ranks, fabrics, cards and switches; an edge is
// either a link (a capacity with α and β) or an attachment (costs nothing).
//
//   Switch, CubeMesh   rank ──▶ fabric ──▶ rank                  rank ┄┄▶ card
//   PcieTree           rank ──▶ up ══▶ host ══▶ down ──▶ rank    host ┄┄▶ card
//   Memory             rank ──▶ in ══▶ host ──▶ rank             host ┄┄▶ card
//
//   ──▶ a device's port   ══▶ shared by the node's devices (host bridge; memory)   ┄┄▶ attachment
//
//   card ──▶ switch ──▶ card                      star
//   card ──▶ leaf ══▶ spine ══▶ leaf ──▶ card     two-level fat tree, the spines folded into one
//
// α. A message within a node costs device_link.latency: half of it at each of the two ports. A
// message between nodes costs network_card.latency, half at each card, plus Network::hop_latency
// for every network link: two in a star or under one leaf, four between leaves. β. A card carries
// its line rate times Network::efficiency. Device d of a node uses card d · cards / devices
// (integer division). A leaf's up (and down) link carries the cards under a full leaf divided by
// the oversubscription. The bridge of a PcieTree carries device_link.bandwidth each way; the memory
// of a Memory node carries the sum of its devices' memory bandwidth.
//
// Routes climb from both ends to the lowest common vertex, as up-down routing in a fat tree does:
// one route per pair, computed when asked in O(height), so 16,384 ranks need no table.

#include <memory>
#include <string>
#include <vector>

#include "core/cluster.h"
#include "core/ids.h"

namespace orrery::core {

/// What a link is: a device's port, what a node's devices share, a network card, a leaf's trunk.
enum class LinkKind { PortOut, PortIn, SharedUp, SharedDown, CardOut, CardIn, LeafUp, LeafDown };

struct Link {
  LinkKind kind = LinkKind::PortOut;
  int place = 0;  ///< Node of a port, shared link or card; leaf of a trunk.
  int index = 0;  ///< Device or card within the node; 0 for the others.
  LinkCost cost;
};

/// "node 3 card 1 out".
std::string link_name(const Link&);

/// Links of a route in order.
using Route = std::vector<LinkId>;

/// Immutable; may be read from several threads at once.
class Topology {
 public:
  explicit Topology(const Cluster&);
  ~Topology();
  Topology(Topology&&) noexcept;
  Topology& operator=(Topology&&) noexcept;

  int ranks() const;
  const std::vector<Link>& links() const;
  const Link& link(LinkId) const;
  int node_of(Rank) const;
  NodeFabric fabric_of(int node) const;
  const Collectives& collectives() const;

  /// Empty when from == to.
  Route route(Rank from, Rank to) const;
  /// Appends the route to `route`.
  void append_route(Rank from, Rank to, Route& route) const;
  Seconds latency(const Route&) const;           ///< Σ α over the links.
  BytesPerSecond bandwidth(const Route&) const;  ///< min β over the links of a route that has any.

 private:
  struct Graph;  // Boost.Graph stays out of this header: 1.5 s per file.
  std::unique_ptr<Graph> graph_;
};

}  // namespace orrery::core
