#include "core/network/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/graph/adjacency_list.hpp>
#include <limits>
#include <optional>

#include "core/error.h"

namespace orrery::core {
namespace {

struct VertexInfo {
  int level = 0;  ///< Height: ranks at 0, spine on top. A route climbs, then descends.
  int card = 0;   ///< Of a card: which of its node. Of a rank: the card it uses.
};
struct EdgeInfo {
  std::optional<LinkId> link;  ///< Absent for an attachment.
};
using Digraph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS, VertexInfo, EdgeInfo>;
using Vertex = boost::graph_traits<Digraph>::vertex_descriptor;

// Heights of the kinds of vertices.
constexpr int kRankLevel = 0;
constexpr int kFabricLevel = 1;
constexpr int kHostLevel = 2;
constexpr int kCardLevel = 3;
constexpr int kLeafLevel = 4;
constexpr int kSpineLevel = 5;

/// Edges that lead upwards, by the vertex below: a switch has one or none, whatever hangs under it.
struct UpwardEdges {
  struct Edge {
    Vertex above = 0;
    std::optional<LinkId> link;
  };
  std::vector<std::size_t> begin = {0};
  std::vector<Edge> edges;
};

}  // namespace

struct Topology::Graph {
  Digraph digraph;
  UpwardEdges out;  // From which a route climbs.
  UpwardEdges in;   // Against which it descends.
  std::vector<Link> links;
  std::vector<Vertex> rank_vertex;
  std::vector<int> rank_node;
  std::vector<NodeFabric> node_fabric;
  Collectives collectives;
};

namespace {

/// Fills a Digraph and its links from a Cluster.
class Builder {
 public:
  Builder(const Cluster& cluster, Digraph& digraph, std::vector<Link>& links)
      : cluster_(cluster), digraph_(digraph), links_(links) {}

  /// Adds a node's ranks, fabric and cards; gives the ranks' vertices.
  std::vector<Vertex> add_node(int node, const NodeType& type) {
    std::vector<Vertex> ranks;
    const int cards = cards_of(type);
    for (int d = 0; d < type.devices; ++d) {
      ranks.push_back(vertex(kRankLevel, d * cards / type.devices));
    }
    const Attachment attachment = add_fabric(node, type, ranks);
    if (cluster_.network.kind != NetworkKind::None) add_cards(node, type, attachment);
    return ranks;
  }

 private:
  /// The vertices from which, and to which, a device's network traffic goes; by device.
  struct Attachment {
    std::vector<Vertex> out, in;
  };

  Vertex vertex(int level, int card = 0) {
    return boost::add_vertex(VertexInfo{level, card}, digraph_);
  }

  /// More cards than devices: a device's cards act as one.
  static int cards_of(const NodeType& type) { return std::min(type.network_cards, type.devices); }

  void attach(Vertex from, Vertex to) {
    boost::add_edge(from, to, EdgeInfo{std::nullopt}, digraph_);
  }

  void connect(Vertex from, Vertex to, const Link& link) {
    ORRERY_CHECK(link.cost.bandwidth.value > 0, link_name(link) + " has no bandwidth");
    boost::add_edge(from, to, EdgeInfo{LinkId(links_.size())}, digraph_);
    links_.push_back(link);
  }

  /// Ports between the ranks and `up` (outwards) and `down` (inwards).
  void add_ports(int node, const NodeType& type, const std::vector<Vertex>& ranks, Vertex up,
                 Vertex down) {
    const LinkCost port{type.device_link.latency / 2, type.device_link.bandwidth};
    for (int d = 0; d < type.devices; ++d) {
      connect(ranks[static_cast<std::size_t>(d)], up, {LinkKind::PortOut, node, d, port});
      connect(down, ranks[static_cast<std::size_t>(d)], {LinkKind::PortIn, node, d, port});
    }
  }

  Attachment add_fabric(int node, const NodeType& type, const std::vector<Vertex>& ranks) {
    const std::size_t devices = ranks.size();
    switch (type.fabric) {
      case NodeFabric::Switch:
      case NodeFabric::CubeMesh: {
        // The cube mesh is taken as one port per device at the total of its links.
        const Vertex fabric = vertex(kFabricLevel);
        add_ports(node, type, ranks, fabric, fabric);
        return {ranks, ranks};
      }
      case NodeFabric::PcieTree: {
        const Vertex up = vertex(kFabricLevel);
        const Vertex down = vertex(kFabricLevel);
        const Vertex host = vertex(kHostLevel);
        const LinkCost bridge{Seconds(0), type.device_link.bandwidth};
        add_ports(node, type, ranks, up, down);
        connect(up, host, {LinkKind::SharedUp, node, 0, bridge});
        connect(host, down, {LinkKind::SharedDown, node, 0, bridge});
        return {std::vector<Vertex>(devices, host), std::vector<Vertex>(devices, host)};
      }
      case NodeFabric::Memory: {
        const Vertex in = vertex(kFabricLevel);
        const Vertex host = vertex(kHostLevel);
        add_ports(node, type, ranks, in, host);
        const LinkCost memory{Seconds(0), type.device.memory_bandwidth * type.devices};
        connect(in, host, {LinkKind::SharedUp, node, 0, memory});
        return {std::vector<Vertex>(devices, host), std::vector<Vertex>(devices, host)};
      }
    }
    ORRERY_CHECK(false, "unknown fabric");
  }

  void add_cards(int node, const NodeType& type, const Attachment& attachment) {
    ORRERY_CHECK(type.network_cards > 0, "a node of a network has no card");
    const int cards = cards_of(type);
    const double merged = static_cast<double>(type.network_cards) / cards;
    const LinkCost card{type.network_card.latency / 2 + cluster_.network.hop_latency,
                        type.network_card.bandwidth * (merged * cluster_.network.efficiency)};
    const Vertex above = network_switch(node, type);
    std::vector<Vertex> out, in;
    for (int c = 0; c < cards; ++c) {
      out.push_back(vertex(kCardLevel, c));
      in.push_back(vertex(kCardLevel, c));
      connect(out.back(), above, {LinkKind::CardOut, node, c, card});
      connect(above, in.back(), {LinkKind::CardIn, node, c, card});
    }
    for (int d = 0; d < type.devices; ++d) {
      const auto c = static_cast<std::size_t>(d * cards / type.devices);
      const auto device = static_cast<std::size_t>(d);
      if (boost::edge(attachment.out[device], out[c], digraph_).second) continue;
      attach(attachment.out[device], out[c]);
      attach(in[c], attachment.in[device]);
    }
  }

  /// The switch that a node's cards plug into.
  Vertex network_switch(int node, const NodeType& type) {
    if (cluster_.network.kind != NetworkKind::FatTree) {
      if (switches_.empty()) switches_.push_back(vertex(kLeafLevel));
      return switches_.front();
    }
    const Network& network = cluster_.network;
    ORRERY_CHECK(network.nodes_per_leaf > 0, "a fat tree's leaf has no nodes");
    const auto leaf = static_cast<std::size_t>(node / network.nodes_per_leaf);
    if (!spine_) spine_ = vertex(kSpineLevel);
    if (leaf == switches_.size()) {
      switches_.push_back(vertex(kLeafLevel));
      // Of a leaf full of nodes like its first one.
      const BytesPerSecond down =
          type.network_card.bandwidth *
          (network.efficiency * type.network_cards * network.nodes_per_leaf);
      const LinkCost trunk{network.hop_latency, down / network.oversubscription};
      const int place = static_cast<int>(leaf);
      connect(switches_[leaf], *spine_, {LinkKind::LeafUp, place, 0, trunk});
      connect(*spine_, switches_[leaf], {LinkKind::LeafDown, place, 0, trunk});
    }
    return switches_[leaf];
  }

  const Cluster& cluster_;
  Digraph& digraph_;
  std::vector<Link>& links_;
  std::vector<Vertex> switches_;  // The star's one, or the leaves.
  std::optional<Vertex> spine_;
};

/// Vertices that a climb from one end reaches, with the edge it came by: at most one fabric, host,
/// card, leaf and spine per level and branch, so a linear search is the fastest.
struct Climb {
  struct Reached {
    Vertex vertex = 0;
    int hops = 0;
    int before = 0;  ///< Index of the vertex it was reached from.
    std::optional<LinkId> link;
  };
  std::vector<Reached> reached;

  const Reached* find(Vertex v) const {
    const auto it = std::find_if(reached.begin(), reached.end(),
                                 [v](const Reached& r) { return r.vertex == v; });
    return it == reached.end() ? nullptr : &*it;
  }
};

/// `forward`: edges from a vertex, else edges to it.
UpwardEdges upward_edges(const Digraph& g, bool forward) {
  UpwardEdges up;
  const auto take = [&](Vertex below, Vertex above, const EdgeInfo& edge) {
    if (g[above].level > g[below].level) up.edges.push_back({above, edge.link});
  };
  for (Vertex v = 0; v < boost::num_vertices(g); ++v) {
    if (forward) {
      for (auto [e, end] = boost::out_edges(v, g); e != end; ++e) {
        take(v, boost::target(*e, g), g[*e]);
      }
    } else {
      for (auto [e, end] = boost::in_edges(v, g); e != end; ++e) {
        take(v, boost::source(*e, g), g[*e]);
      }
    }
    up.begin.push_back(up.edges.size());
  }
  return up;
}

/// Breadth-first upwards, past no card but the rank's own.
Climb climb(const Digraph& g, const UpwardEdges& up, Vertex start) {
  Climb c;
  c.reached.reserve(8);
  c.reached.push_back({start, 0, 0, std::nullopt});
  for (std::size_t at = 0; at < c.reached.size(); ++at) {
    const Climb::Reached from = c.reached[at];
    for (std::size_t e = up.begin[from.vertex]; e < up.begin[from.vertex + 1]; ++e) {
      const UpwardEdges::Edge& edge = up.edges[e];
      const VertexInfo& above = g[edge.above];
      if (above.level == kCardLevel && above.card != g[start].card) continue;
      if (c.find(edge.above) != nullptr) continue;
      c.reached.push_back({edge.above, from.hops + 1, static_cast<int>(at), edge.link});
    }
  }
  return c;
}

}  // namespace

std::string link_name(const Link& link) {
  switch (link.kind) {
    case LinkKind::PortOut:
      return fmt::format("node {} device {} out", link.place, link.index);
    case LinkKind::PortIn:
      return fmt::format("node {} device {} in", link.place, link.index);
    case LinkKind::SharedUp:
      return fmt::format("node {} shared up", link.place);
    case LinkKind::SharedDown:
      return fmt::format("node {} shared down", link.place);
    case LinkKind::CardOut:
      return fmt::format("node {} card {} out", link.place, link.index);
    case LinkKind::CardIn:
      return fmt::format("node {} card {} in", link.place, link.index);
    case LinkKind::LeafUp:
      return fmt::format("leaf {} up", link.place);
    case LinkKind::LeafDown:
      return fmt::format("leaf {} down", link.place);
  }
  ORRERY_CHECK(false, "unknown kind of link");
}

Topology::Topology(const Cluster& cluster) : graph_(std::make_unique<Graph>()) {
  Builder builder(cluster, graph_->digraph, graph_->links);
  graph_->collectives = cluster.collectives;
  int node = 0;
  for (const NodeGroup& group : cluster.groups) {
    for (int i = 0; i < group.count; ++i, ++node) {
      graph_->node_fabric.push_back(group.type.fabric);
      for (const Vertex v : builder.add_node(node, group.type)) {
        graph_->rank_vertex.push_back(v);
        graph_->rank_node.push_back(node);
      }
    }
  }
  graph_->out = upward_edges(graph_->digraph, true);
  graph_->in = upward_edges(graph_->digraph, false);
}

Topology::~Topology() = default;
Topology::Topology(Topology&&) noexcept = default;
Topology& Topology::operator=(Topology&&) noexcept = default;

int Topology::ranks() const { return static_cast<int>(graph_->rank_vertex.size()); }
const std::vector<Link>& Topology::links() const { return graph_->links; }
const Link& Topology::link(LinkId id) const { return graph_->links[id.index()]; }
int Topology::node_of(Rank rank) const { return graph_->rank_node[rank.index()]; }
NodeFabric Topology::fabric_of(int node) const {
  return graph_->node_fabric[static_cast<std::size_t>(node)];
}
const Collectives& Topology::collectives() const { return graph_->collectives; }

Route Topology::route(Rank from, Rank to) const {
  Route route;
  append_route(from, to, route);
  return route;
}

void Topology::append_route(Rank from, Rank to, Route& route) const {
  if (from == to) return;
  const Climb up = climb(graph_->digraph, graph_->out, graph_->rank_vertex[from.index()]);
  const Climb down = climb(graph_->digraph, graph_->in, graph_->rank_vertex[to.index()]);
  int fewest = std::numeric_limits<int>::max();
  const Climb::Reached* top = nullptr;
  const Climb::Reached* other = nullptr;
  for (const Climb::Reached& r : up.reached) {
    const Climb::Reached* met = down.find(r.vertex);
    if (met == nullptr || r.hops + met->hops >= fewest) continue;
    fewest = r.hops + met->hops;
    top = &r;
    other = met;
  }
  ORRERY_CHECK(top != nullptr, fmt::format("no route from rank {} to {}", from.value, to.value));
  const std::size_t begin = route.size();
  for (; top->hops > 0; top = &up.reached[static_cast<std::size_t>(top->before)]) {
    if (top->link) route.push_back(*top->link);
  }
  std::reverse(route.begin() + static_cast<std::ptrdiff_t>(begin), route.end());
  for (; other->hops > 0; other = &down.reached[static_cast<std::size_t>(other->before)]) {
    if (other->link) route.push_back(*other->link);
  }
}

Seconds Topology::latency(const Route& route) const {
  Seconds sum;
  for (const LinkId id : route) sum += link(id).cost.latency;
  return sum;
}

BytesPerSecond Topology::bandwidth(const Route& route) const {
  ORRERY_CHECK(!route.empty(), "a route without links has no bandwidth");
  BytesPerSecond least = link(route.front()).cost.bandwidth;
  for (const LinkId id : route) least = std::min(least, link(id).cost.bandwidth);
  return least;
}

}  // namespace orrery::core
