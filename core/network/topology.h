#pragma once
// The cluster as a directed graph. Vertices are ranks, fabrics, cards and switches; an edge is
// either a link (a capacity with α and β) or an attachment (costs nothing). What the families of
// nodes and networks put into it: core/network/family/, a picture each.
//
// α. A message within a node costs device_link.latency: half of it at each of the two ports. A
// message between nodes costs network_card.latency, half at each card, plus Network::hop_latency
// for every network link: two in a star or under one leaf, four between leaves, six between pods; a
// wire between two switches has a latency of its own. β. A card carries its line rate times
// Network::efficiency, and so does a wire. Device d of a node uses card d · cards / devices (integer
// division). A leaf's up (and down) link carries the cards under a full leaf divided by the
// oversubscription. The bridge of a PcieTree carries device_link.bandwidth each way; the memory
// of a Memory node carries the sum of its devices' memory bandwidth.
//
// Routes climb from both ends to the lowest common vertex, as up-down routing in a fat tree does;
// where that does not lead from one switch to the other, the family's ways do. A route is computed
// when asked in O(its links), so 16,384 ranks need no table.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/cluster.h"
#include "core/ids.h"
#include "core/network/link.h"

namespace orrery::core {

/// "node 3 card 1 out"; "switch 2 to 5 #2" is the second of several wires.
std::string link_name(const Link&);

/// Links that are not what they should be.
struct LinkFaults {
  std::map<LinkId, double> slowed;  ///< Share of its bandwidth that a link still has.
  std::set<LinkId> failed;          ///< Carry nothing: messages take the shortest ways around them.

  bool operator==(const LinkFaults&) const = default;
};

/// Immutable; may be read from several threads at once.
class Topology {
 public:
  explicit Topology(const Cluster&, LinkFaults = {});
  ~Topology();
  Topology(Topology&&) noexcept;
  Topology& operator=(Topology&&) noexcept;

  int ranks() const;
  const std::vector<Link>& links() const;
  const Link& link(LinkId) const;
  std::string name(LinkId) const;  ///< With the names of a graph's switches.
  std::optional<LinkId> find_link(std::string_view name) const;
  std::pair<int, int> ends(LinkId) const;  ///< The vertices that it leads from and to.
  int node_of(Rank) const;
  NodeFabric fabric_of(int node) const;
  const Collectives& collectives() const;
  /// Whether nodes differ only in the leaf and the pod that they are under: one node, a star, evenly
  /// spread fat trees.
  bool levels_alone() const;

  /// Empty when from == to.
  /// @throws SystemError where failed links leave no way
  Route route(Rank from, Rank to) const;
  /// Appends the route to `route`.
  void append_route(Rank from, Rank to, Route& route) const;
  Seconds latency(const Route&) const;           ///< Σ share · α: of several ways the mean.
  BytesPerSecond bandwidth(const Route&) const;  ///< min β / share, of a route that has any links.

 private:
  void append_leg(Rank from, Rank to, Route& route) const;
  std::optional<Rank> through(Rank from, Rank to) const;

  struct Graph;  // Boost.Graph stays out of this header: 1.5 s per file.
  std::unique_ptr<Graph> graph_;
};

}  // namespace orrery::core
