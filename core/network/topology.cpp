#include "core/network/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <limits>
#include <span>

#include "core/error.h"
#include "core/network/family/families.h"
#include "core/network/graph_builder.h"
#include "core/network/shortest_ways.h"
#include "core/split_mix.h"

namespace orrery::core {
namespace {

struct EdgeInfo {
  std::optional<LinkId> link;  ///< Absent for an attachment.
};
using Digraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS,
                                      GraphBuilder::Vertex, EdgeInfo>;
using Vertex = boost::graph_traits<Digraph>::vertex_descriptor;

/// Edges that lead upwards, by the vertex below: a switch has one or none, whatever hangs under it.
struct UpwardEdges {
  struct Edge {
    Vertex above = 0;
    std::optional<LinkId> link;
  };
  std::vector<std::size_t> begin = {0};
  std::vector<Edge> edges;
};

/// Ways around links that have failed, between all switches.
struct Detours {
  std::vector<std::optional<int>> number;  ///< Of a switch, by vertex.
  ShortestWays ways;
};

/// A vertex that a climb reaches, with the edge it came by.
struct Reached {
  Vertex vertex = 0;
  int hops = 0;
  int before = 0;  ///< Index of the vertex it was reached from.
  std::optional<LinkId> link;
};

/// What a climb from one end reaches: at most one fabric, host, card, leaf and spine per level and
/// branch, so a linear search is the fastest.
class Climb {
 public:
  explicit Climb(std::span<const Reached> reached) : reached_(reached) {}

  std::span<const Reached> reached() const { return reached_; }

  const Reached* find(Vertex v) const {
    const auto it = std::find_if(reached_.begin(), reached_.end(),
                                 [v](const Reached& r) { return r.vertex == v; });
    return it == reached_.end() ? nullptr : &*it;
  }

  /// The switch that the rank's card plugs into; null where it has none.
  const Reached* own_switch(const Digraph& g) const {
    const auto it = std::find_if(reached_.begin(), reached_.end(), [&g](const Reached& r) {
      return g[r.vertex].level >= kLeafLevel;
    });
    return it == reached_.end() ? nullptr : &*it;
  }

  /// The links from the start to a vertex, in this order.
  void append_up(const Reached* top, Route& route) const {
    const auto begin = static_cast<std::ptrdiff_t>(route.size());
    append_down(top, route);
    std::reverse(route.begin() + begin, route.end());
  }
  /// Those from a vertex to the start, which was climbed from against them.
  void append_down(const Reached* top, Route& route) const {
    for (; top->hops > 0; top = &reached_[static_cast<std::size_t>(top->before)]) {
      if (top->link) route.push_back({*top->link});
    }
  }

 private:
  std::span<const Reached> reached_;
};

/// The climbs of all ranks, one after the other.
struct Climbs {
  std::vector<std::size_t> begin = {0};
  std::vector<Reached> reached;

  Climb of(Rank rank) const {
    const std::size_t first = begin[rank.index()];
    return Climb(std::span(reached).subspan(first, begin[rank.index() + 1] - first));
  }
};

}  // namespace

struct Topology::Graph {
  Digraph digraph;
  Climbs up;    // From each rank.
  Climbs down;  // To each rank, against the links.
  std::vector<Link> links;
  std::vector<std::pair<int, int>> ends;  // By link.
  std::vector<Vertex> rank_vertex;
  std::vector<int> rank_node;
  std::vector<int> first_rank;  // By node.
  std::vector<NodeFabric> node_fabric;
  std::unique_ptr<family::NetworkFamily> network;
  std::vector<std::string> switch_names;
  bool rails_within_node = false;
  Spreading spreading = Spreading::Even;
  bool levels_alone = true;
  std::set<LinkId> failed;
  std::optional<Detours> detours;
  Collectives collectives;
};

namespace {

family::Attachment add_fabric(int node, const NodeType& type, const std::vector<int>& ranks,
                              GraphBuilder& graph) {
  switch (type.fabric) {
    case NodeFabric::Switch:
    case NodeFabric::CubeMesh:
      return family::add_switched_node(node, type, ranks, graph);
    case NodeFabric::PcieTree:
      return family::add_pcie_node(node, type, ranks, graph);
    case NodeFabric::Memory:
      return family::add_memory_node(node, type, ranks, graph);
  }
  ORRERY_CHECK(false, "unknown fabric");
}

/// More cards than devices: a device's cards act as one.
int cards_of(const NodeType& type) { return std::min(type.network_cards, type.devices); }

void add_cards(int node, const NodeType& type, const Network& network,
               const family::Attachment& attachment, family::NetworkFamily& switches,
               GraphBuilder& graph) {
  ORRERY_CHECK(type.network_cards > 0, "a node of a network has no card");
  const int cards = cards_of(type);
  const double merged = static_cast<double>(type.network_cards) / cards;
  const LinkCost card{type.network_card.latency / 2 + network.hop_latency,
                      type.network_card.bandwidth * (merged * network.efficiency)};
  std::vector<int> out, in;
  for (int c = 0; c < cards; ++c) {
    const int above = switches.switch_of(node, type, c, graph);
    out.push_back(graph.vertex(kCardLevel, c));
    in.push_back(graph.vertex(kCardLevel, c));
    graph.connect(out.back(), above, {LinkKind::CardOut, node, c, card});
    graph.connect(above, in.back(), {LinkKind::CardIn, node, c, card});
  }
  std::set<std::pair<int, int>> attached;
  for (int d = 0; d < type.devices; ++d) {
    const auto c = static_cast<std::size_t>(d * cards / type.devices);
    const auto device = static_cast<std::size_t>(d);
    if (!attached.emplace(attachment.out[device], out[c]).second) continue;
    graph.attach(attachment.out[device], out[c]);
    graph.attach(in[c], attachment.in[device]);
  }
}

/// Adds a node's ranks, fabric and cards; gives the ranks' vertices.
std::vector<int> add_node(int node, const NodeType& type, const Network& network,
                          family::NetworkFamily* switches, GraphBuilder& graph) {
  std::vector<int> ranks;
  for (int d = 0; d < type.devices; ++d) {
    ranks.push_back(graph.vertex(kRankLevel, d * cards_of(type) / type.devices));
  }
  const family::Attachment attachment = add_fabric(node, type, ranks, graph);
  if (switches != nullptr) add_cards(node, type, network, attachment, *switches, graph);
  return ranks;
}

Digraph digraph_of(const GraphBuilder& graph) {
  Digraph digraph;
  for (const GraphBuilder::Vertex& vertex : graph.vertices()) boost::add_vertex(vertex, digraph);
  for (const GraphBuilder::Edge& edge : graph.edges()) {
    boost::add_edge(static_cast<Vertex>(edge.from), static_cast<Vertex>(edge.to),
                    EdgeInfo{edge.link}, digraph);
  }
  return digraph;
}

Detours detours_of(const GraphBuilder& graph, const std::set<LinkId>& failed) {
  std::vector<std::optional<int>> number(graph.vertices().size());
  int count = 0;
  for (std::size_t v = 0; v < number.size(); ++v) {
    if (graph.vertices()[v].level >= kLeafLevel) number[v] = count++;
  }
  std::vector<ShortestWays::Wire> wires;
  for (const GraphBuilder::Edge& edge : graph.edges()) {
    const auto from = number[static_cast<std::size_t>(edge.from)];
    const auto to = number[static_cast<std::size_t>(edge.to)];
    if (from && to && failed.count(*edge.link) == 0) wires.push_back({*from, *to, *edge.link});
  }
  return {std::move(number), ShortestWays(count, wires)};
}

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

/// Appends a climb: breadth-first upwards, past no card but the rank's own.
void add_climb(const Digraph& g, const UpwardEdges& up, Vertex start, Climbs& climbs) {
  std::vector<Reached>& all = climbs.reached;
  const std::size_t begin = all.size();
  const auto known = [&](Vertex v) {
    return std::any_of(all.begin() + static_cast<std::ptrdiff_t>(begin), all.end(),
                       [v](const Reached& r) { return r.vertex == v; });
  };
  all.push_back({start, 0, 0, std::nullopt});
  for (std::size_t at = begin; at < all.size(); ++at) {
    const Reached from = all[at];
    for (std::size_t e = up.begin[from.vertex]; e < up.begin[from.vertex + 1]; ++e) {
      const UpwardEdges::Edge& edge = up.edges[e];
      const GraphBuilder::Vertex& above = g[edge.above];
      if (above.level == kCardLevel && above.index != g[start].index) continue;
      if (known(edge.above)) continue;
      all.push_back({edge.above, from.hops + 1, static_cast<int>(at - begin), edge.link});
    }
  }
  climbs.begin.push_back(all.size());
}

Climbs climbs_of(const Digraph& g, bool forward, const std::vector<Vertex>& ranks) {
  const UpwardEdges edges = upward_edges(g, forward);
  Climbs climbs;
  for (const Vertex rank : ranks) add_climb(g, edges, rank, climbs);
  return climbs;
}

/// Where two climbs meet with the fewest hops; null where they do not.
std::pair<const Reached*, const Reached*> meeting_of(const Climb& up, const Climb& down) {
  int fewest = std::numeric_limits<int>::max();
  std::pair<const Reached*, const Reached*> met{nullptr, nullptr};
  for (const Reached& r : up.reached()) {
    const Reached* other = down.find(r.vertex);
    if (other == nullptr || r.hops + other->hops >= fewest) continue;
    fewest = r.hops + other->hops;
    met = {&r, other};
  }
  return met;
}

/// What tells the way of this pair from those of others.
std::uint64_t hash_of(Rank from, Rank to) {
  return mix(mix(static_cast<std::uint64_t>(from.value)) ^ static_cast<std::uint64_t>(to.value));
}

std::string several(std::string name, int index) {
  return index == 0 ? name : fmt::format("{} #{}", name, index + 1);
}

}  // namespace

std::string link_name(const Link& link) {
  switch (link.kind) {
    case LinkKind::PortOut:
      return fmt::format("node {} device {} out", link.place, link.index);
    case LinkKind::PortIn:
      return fmt::format("node {} device {} in", link.place, link.index);
    case LinkKind::SharedUp:
      return several(fmt::format("node {} shared up", link.place), link.index);
    case LinkKind::SharedDown:
      return several(fmt::format("node {} shared down", link.place), link.index);
    case LinkKind::CardOut:
      return fmt::format("node {} card {} out", link.place, link.index);
    case LinkKind::CardIn:
      return fmt::format("node {} card {} in", link.place, link.index);
    case LinkKind::LeafUp:
      return several(fmt::format("leaf {} up", link.place), link.index);
    case LinkKind::LeafDown:
      return several(fmt::format("leaf {} down", link.place), link.index);
    case LinkKind::RailUp:
      return fmt::format("leaf {} rail {} up", link.place, link.index);
    case LinkKind::RailDown:
      return fmt::format("leaf {} rail {} down", link.place, link.index);
    case LinkKind::PodUp:
      return several(fmt::format("pod {} up", link.place), link.index);
    case LinkKind::PodDown:
      return several(fmt::format("pod {} down", link.place), link.index);
    case LinkKind::Wire:
      return several(fmt::format("switch {} to {}", link.place, link.to), link.index);
  }
  ORRERY_CHECK(false, "unknown kind of link");
}

Topology::Topology(const Cluster& cluster, LinkFaults faults) : graph_(std::make_unique<Graph>()) {
  GraphBuilder builder;
  graph_->network = family::network_family(cluster.network);
  if (cluster.network.kind == NetworkKind::Graph) {
    graph_->switch_names = cluster.network.graph.switches;
  }
  graph_->rails_within_node = cluster.network.kind == NetworkKind::Rail &&
                              cluster.network.cross_rail == CrossRail::WithinNode;
  graph_->spreading = cluster.network.spreading;
  graph_->levels_alone = cluster.network.kind <= NetworkKind::FatTree &&
                         cluster.network.spreading == Spreading::Even && faults.slowed.empty() &&
                         faults.failed.empty();
  graph_->collectives = cluster.collectives;
  int node = 0;
  for (const NodeGroup& group : cluster.groups) {
    for (int i = 0; i < group.count; ++i, ++node) {
      graph_->node_fabric.push_back(group.type.fabric);
      graph_->first_rank.push_back(static_cast<int>(graph_->rank_vertex.size()));
      for (const int v :
           add_node(node, group.type, cluster.network, graph_->network.get(), builder)) {
        graph_->rank_vertex.push_back(static_cast<Vertex>(v));
        graph_->rank_node.push_back(node);
      }
    }
  }
  graph_->digraph = digraph_of(builder);
  graph_->up = climbs_of(graph_->digraph, true, graph_->rank_vertex);
  graph_->down = climbs_of(graph_->digraph, false, graph_->rank_vertex);
  graph_->links = builder.take_links();
  graph_->ends.resize(graph_->links.size());
  for (const GraphBuilder::Edge& edge : builder.edges()) {
    if (edge.link) graph_->ends[edge.link->index()] = {edge.from, edge.to};
  }
  for (const auto& [link, share] : faults.slowed) {
    ORRERY_CHECK(share > 0, "a link that carries nothing has failed");
    graph_->links[link.index()].cost.bandwidth *= share;
  }
  graph_->failed = std::move(faults.failed);
  if (!graph_->failed.empty()) graph_->detours = detours_of(builder, graph_->failed);
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
bool Topology::levels_alone() const { return graph_->levels_alone; }
std::pair<int, int> Topology::ends(LinkId id) const { return graph_->ends[id.index()]; }

std::string Topology::name(LinkId id) const {
  const Link& one = link(id);
  if (one.kind != LinkKind::Wire || graph_->switch_names.empty()) return link_name(one);
  return several(fmt::format("{} to {}", graph_->switch_names[static_cast<std::size_t>(one.place)],
                             graph_->switch_names[static_cast<std::size_t>(one.to)]),
                 one.index);
}

std::optional<LinkId> Topology::find_link(std::string_view name) const {
  for (std::size_t l = 0; l < graph_->links.size(); ++l) {
    if (this->name(LinkId(l)) == name) return LinkId(l);
  }
  return std::nullopt;
}

Route Topology::route(Rank from, Rank to) const {
  Route route;
  append_route(from, to, route);
  return route;
}

void Topology::append_route(Rank from, Rank to, Route& route) const {
  if (from == to) return;
  if (const auto via = through(from, to)) {
    append_leg(from, *via, route);
    append_leg(*via, to, route);
    return;
  }
  append_leg(from, to, route);
}

/// The device of the sender's node that has a card of the receiver's rail, where messages go there.
std::optional<Rank> Topology::through(Rank from, Rank to) const {
  const Graph& graph = *graph_;
  if (!graph.rails_within_node || node_of(from) == node_of(to)) return std::nullopt;
  const auto rail = [&](int r) {
    return graph.digraph[graph.rank_vertex[static_cast<std::size_t>(r)]].index;
  };
  if (rail(from.value) == rail(to.value)) return std::nullopt;
  const int node = node_of(from);
  for (int r = graph.first_rank[static_cast<std::size_t>(node)];
       r < ranks() && node_of(Rank(r)) == node; ++r) {
    if (rail(r) == rail(to.value)) return Rank(r);
  }
  return std::nullopt;
}

void Topology::append_leg(Rank from, Rank to, Route& route) const {
  const Graph& graph = *graph_;
  const Climb up = graph.up.of(from);
  const Climb down = graph.down.of(to);
  const std::size_t begin = route.size();
  const auto [top, other] = meeting_of(up, down);
  const Reached* leaving = up.own_switch(graph.digraph);
  const Reached* entering = down.own_switch(graph.digraph);
  if (top != nullptr) {
    up.append_up(top, route);
    down.append_down(other, route);
  } else {
    ORRERY_CHECK(leaving != nullptr && entering != nullptr,
                 fmt::format("no route from rank {} to {}", from.value, to.value));
    up.append_up(leaving, route);
    graph.network->append_ways({graph.digraph[leaving->vertex].index,
                                graph.digraph[entering->vertex].index, hash_of(from, to)},
                               route);
    down.append_down(entering, route);
  }
  const auto broken = [&graph](const Hop& hop) { return graph.failed.count(hop.link) > 0; };
  const auto first = route.begin() + static_cast<std::ptrdiff_t>(begin);
  if (!graph.detours || std::none_of(first, route.end(), broken)) return;
  // Around what has failed.
  route.resize(begin);
  bool found = leaving != nullptr && entering != nullptr;
  if (found) {
    const int a = *graph.detours->number[leaving->vertex];
    const int b = *graph.detours->number[entering->vertex];
    up.append_up(leaving, route);
    found = graph.detours->ways.append({a, b, hash_of(from, to)}, graph.spreading,
                                       graph.detours->ways.distances(b), route);
    down.append_down(entering, route);
  }
  if (!found ||
      std::any_of(route.begin() + static_cast<std::ptrdiff_t>(begin), route.end(), broken)) {
    throw SystemError(fmt::format("no way is left from rank {} to {} around the failed links",
                                  from.value, to.value));
  }
}

Seconds Topology::latency(const Route& route) const {
  Seconds sum;
  for (const Hop& hop : route) sum += link(hop.link).cost.latency * hop.share;
  return sum;
}

BytesPerSecond Topology::bandwidth(const Route& route) const {
  ORRERY_CHECK(!route.empty(), "a route without links has no bandwidth");
  const auto of = [this](const Hop& hop) { return link(hop.link).cost.bandwidth / hop.share; };
  BytesPerSecond least = of(route.front());
  for (const Hop& hop : route) least = std::min(least, of(hop));
  return least;
}

}  // namespace orrery::core
