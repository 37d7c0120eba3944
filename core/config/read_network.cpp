#include "core/config/read_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>

#include "core/config/read.h"

namespace orrery::core {

LinkCost read_link(TableReader reader) {
  LinkCost link;
  link.bandwidth = reader.quantity<BytesPerSecond>("bandwidth");
  link.latency = reader.quantity<Seconds>("latency", Sign::NonNegative);
  reader.finish();
  return link;
}

namespace {

// Links between switches; each takes some hundred bytes and time whenever a step is simulated.
constexpr std::int64_t kMaxWires = 2'000'000;
// Of a graph: its ways are looked up in a table of every pair.
constexpr std::size_t kMaxSwitches = 4096;
constexpr int kMaxSide = 4096;

int nodes_of(const std::vector<NodeGroup>& groups) {
  return std::accumulate(groups.begin(), groups.end(), 0,
                         [](int sum, const NodeGroup& group) { return sum + group.count; });
}

void check_room(const TableReader& reader, std::string_view key, std::int64_t room, int nodes) {
  if (room >= nodes) return;
  reader.fail(key, fmt::format("leaves room for {} nodes; the cluster has {}", room, nodes));
}

void check_wires(const TableReader& reader, std::string_view key, std::int64_t wires) {
  if (wires <= kMaxWires) return;
  reader.fail(key, fmt::format("makes {} links; allowed are {}", wires, kMaxWires));
}

void read_leaves(TableReader& reader, Network& network) {
  network.nodes_per_leaf = reader.count("nodes_per_leaf", 1, kMaxNodes);
  network.oversubscription = reader.constant("oversubscription", {1, 1000});
}

void read_fat_tree(TableReader& reader, Network& network) {
  read_leaves(reader, network);
  if (reader.has("pods")) {
    TableReader pods = reader.table("pods");
    network.pods =
        Pods{pods.count("leaves", 1, kMaxNodes), pods.constant("oversubscription", {1, 1000})};
    pods.finish();
  }
  if (network.spreading != Spreading::Hash) return;
  network.spines = Spines{};
  network.spines->spines = reader.count("spines", 1, kMaxSide);
  if (network.pods) network.spines->cores = reader.count("cores", 1, kMaxSide);
}

void read_torus(TableReader& reader, Network& network, int nodes) {
  Torus& torus = network.torus;
  torus.sides = reader.counts("sides", 1, kMaxSide);
  if (torus.sides.empty()) reader.fail("sides", "is empty; a torus has one side or more");
  if (reader.has("nodes_per_switch")) {
    torus.nodes_per_switch = reader.count("nodes_per_switch", 1, kMaxNodes);
  }
  std::int64_t switches = 1;
  for (const int side : torus.sides) {
    switches *= side;
    check_wires(reader, "sides", switches * 2 * static_cast<std::int64_t>(torus.sides.size()));
  }
  check_room(reader, "sides", switches * torus.nodes_per_switch, nodes);
  torus.link = read_link(reader.table("link"));
}

void read_dragonfly(TableReader& reader, Network& network, int nodes) {
  Dragonfly& shape = network.dragonfly;
  shape.nodes_per_switch = reader.count("nodes_per_switch", 1, kMaxNodes);
  shape.switches_per_group = reader.count("switches_per_group", 1, kMaxSide);
  shape.groups = reader.count("groups", 1, kMaxSide);
  shape.links_between_groups = reader.count("links_between_groups", 1, kMaxSide);
  const std::int64_t switches = std::int64_t{shape.groups} * shape.switches_per_group;
  check_wires(reader, "groups",
              switches * shape.switches_per_group +
                  std::int64_t{shape.groups} * shape.groups * shape.links_between_groups);
  check_room(reader, "groups", switches * shape.nodes_per_switch, nodes);
  shape.local = read_link(reader.table("local"));
  shape.global = read_link(reader.table("global"));
}

/// Reads a graph's switches and links.
class GraphReader {
 public:
  GraphReader(TableReader reader, const std::vector<NodeGroup>& groups) : reader_(reader) {
    for (const NodeGroup& group : groups) {
      cards_.insert(cards_.end(), static_cast<std::size_t>(group.count),
                    std::min(group.type.network_cards, group.type.devices));
    }
    placed_.resize(cards_.size());
  }

  SwitchGraph read() {
    for (TableReader& one : reader_.tables("switch")) add_switch(one);
    if (reader_.has("link")) {
      for (TableReader& one : reader_.tables("link")) add_links(one);
    }
    reader_.finish();
    for (std::size_t node = 0; node < cards_.size(); ++node) attach(static_cast<int>(node));
    check_connected();
    return std::move(graph_);
  }

 private:
  void add_switch(TableReader& one) {
    if (graph_.switches.size() == kMaxSwitches) {
      reader_.fail("switch", fmt::format("are more than {}", kMaxSwitches));
    }
    const int which = static_cast<int>(graph_.switches.size());
    const std::string name = one.text("name");
    if (!number_.try_emplace(name, which).second) {
      one.fail("name", fmt::format("\"{}\" is another switch's too", name));
    }
    graph_.switches.push_back(name);
    if (one.has("nodes")) {
      for (const int node : one.counts("nodes", 0, last_node())) {
        place(one, "nodes", node, std::nullopt, which);
      }
    }
    if (one.has("cards")) {
      for (const std::vector<int>& card : one.count_lists("cards", 0, kMaxNodes)) {
        read_card(one, card, which);
      }
    }
    one.finish();
  }

  int last_node() const { return static_cast<int>(cards_.size()) - 1; }

  void read_card(const TableReader& one, const std::vector<int>& card, int which) {
    if (card.empty() || card.size() > 2) {
      one.fail("cards", "holds [node] for all cards of a node, or [node, card]");
    }
    if (card[0] > last_node()) {
      one.fail("cards", fmt::format("holds node {}; allowed are 0 to {}", card[0], last_node()));
    }
    const int cards = cards_[static_cast<std::size_t>(card[0])];
    if (card.size() == 2 && card[1] >= cards) {
      one.fail("cards", fmt::format("holds card {} of node {}; allowed are 0 to {}", card[1],
                                    card[0], cards - 1));
    }
    place(one, "cards", card[0], card.size() == 2 ? std::optional(card[1]) : std::nullopt, which);
  }

  void place(const TableReader& one, std::string_view key, int node, std::optional<int> card,
             int which) {
    auto& placed = placed_[static_cast<std::size_t>(node)];
    const int first = card.value_or(0);
    const int last = card.value_or(cards_[static_cast<std::size_t>(node)] - 1);
    for (int c = first; c <= last; ++c) {
      if (placed.try_emplace(c, which).second) continue;
      one.fail(key, fmt::format("holds node {} card {}, which is at \"{}\" already", node, c,
                                graph_.switches[static_cast<std::size_t>(placed.at(c))]));
    }
  }

  int switch_named(TableReader& one, std::string_view key, const std::string& name) const {
    const auto found = number_.find(name);
    if (found == number_.end()) one.fail(key, fmt::format("\"{}\" is no switch's name", name));
    return found->second;
  }

  /// A link: between two switches, both ways, or from one to another.
  void add_links(TableReader& one) {
    std::vector<std::pair<int, int>> ways;
    if (one.has("between")) {
      const std::vector<std::string> ends = one.texts("between");
      if (ends.size() != 2) one.fail("between", "must name two switches");
      const int a = switch_named(one, "between", ends[0]);
      const int b = switch_named(one, "between", ends[1]);
      if (a == b) one.fail("between", "names one switch twice");
      ways = {{a, b}, {b, a}};
    } else {
      const int from = switch_named(one, "from", one.text("from"));
      const int to = switch_named(one, "to", one.text("to"));
      if (from == to) one.fail("to", "is the switch that the link leads from");
      ways = {{from, to}};
    }
    const int count = one.has("count") ? one.count("count", 1, kMaxSide) : 1;
    const LinkCost cost{one.quantity<Seconds>("latency", Sign::NonNegative),
                        one.quantity<BytesPerSecond>("bandwidth")};
    one.finish();
    check_wires(reader_, "link",
                static_cast<std::int64_t>(graph_.wires.size()) + 2 * std::int64_t{count});
    for (int i = 0; i < count; ++i) {
      for (const auto& [from, to] : ways) graph_.wires.push_back({from, to, cost});
    }
  }

  void attach(int node) {
    const auto& placed = placed_[static_cast<std::size_t>(node)];
    const int cards = cards_[static_cast<std::size_t>(node)];
    std::vector<int>& attached = graph_.attached.emplace_back();
    for (int c = 0; c < cards; ++c) {
      const auto found = placed.find(c);
      if (found == placed.end()) {
        reader_.fail("switch", fmt::format("node {} card {} is at none of them", node, c));
      }
      attached.push_back(found->second);
    }
    const auto same = [&](int s) { return s == attached.front(); };
    if (!attached.empty() && std::all_of(attached.begin(), attached.end(), same)) {
      attached.resize(1);
    }
  }

  /// Switches that can be reached from one, or from which it can be reached.
  std::vector<bool> reached(int from, bool forward) const {
    std::vector<std::vector<int>> next(graph_.switches.size());
    for (const SwitchGraph::Wire& wire : graph_.wires) {
      next[static_cast<std::size_t>(forward ? wire.from : wire.to)].push_back(forward ? wire.to
                                                                                      : wire.from);
    }
    std::vector<bool> seen(next.size(), false);
    std::vector<int> open = {from};
    seen[static_cast<std::size_t>(from)] = true;
    while (!open.empty()) {
      const int at = open.back();
      open.pop_back();
      for (const int s : next[static_cast<std::size_t>(at)]) {
        if (seen[static_cast<std::size_t>(s)]) continue;
        seen[static_cast<std::size_t>(s)] = true;
        open.push_back(s);
      }
    }
    return seen;
  }

  void check_connected() const {
    std::optional<int> first;
    for (const std::vector<int>& node : graph_.attached) {
      if (!first && !node.empty()) first = node.front();
    }
    if (!first) return;
    const std::vector<bool> out = reached(*first, true);
    const std::vector<bool> in = reached(*first, false);
    for (const std::vector<int>& node : graph_.attached) {
      for (const int s : node) {
        const auto at = static_cast<std::size_t>(s);
        if (out[at] && in[at]) continue;
        reader_.fail("link", fmt::format("\"{}\" and \"{}\" have no way to each other",
                                         graph_.switches[static_cast<std::size_t>(*first)],
                                         graph_.switches[at]));
      }
    }
  }

  TableReader reader_;
  std::vector<int> cards_;                  // By node.
  std::vector<std::map<int, int>> placed_;  // By node and card: the switch.
  std::map<std::string, int> number_;       // Of switches.
  SwitchGraph graph_;
};

SwitchGraph read_switch_graph(TableReader& reader, const std::filesystem::path& file,
                              const std::vector<NodeGroup>& groups) {
  if (!reader.is_text("graph")) return GraphReader(reader.table("graph"), groups).read();
  const std::filesystem::path graph_file = resolve_beside(file, reader.text("graph"));
  std::error_code unknown;
  if (!std::filesystem::exists(graph_file, unknown)) {
    reader.fail("graph", fmt::format("there is no file {}", graph_file.string()));
  }
  const ConfigValue value = parse_toml_file(graph_file);
  return GraphReader(TableReader(graph_file.string(), value, Sources::Required), groups).read();
}

}  // namespace

Network read_network(TableReader reader, const std::filesystem::path& file,
                     const std::vector<NodeGroup>& groups) {
  Network network;
  network.kind = reader.choice<NetworkKind>("kind", {{"none", NetworkKind::None},
                                                     {"star", NetworkKind::Star},
                                                     {"fat-tree", NetworkKind::FatTree},
                                                     {"rail", NetworkKind::Rail},
                                                     {"torus", NetworkKind::Torus},
                                                     {"dragonfly", NetworkKind::Dragonfly},
                                                     {"graph", NetworkKind::Graph}});
  if (network.kind != NetworkKind::None) {
    network.hop_latency = reader.quantity<Seconds>("hop_latency", Sign::NonNegative);
    network.efficiency = reader.constant("efficiency", {1e-3, 1});
  }
  const bool has_ways = network.kind != NetworkKind::None && network.kind != NetworkKind::Star &&
                        network.kind != NetworkKind::Rail;
  if (has_ways && reader.has("spreading")) {
    network.spreading = reader.choice<Spreading>(
        "spreading", {{"even", Spreading::Even}, {"hash", Spreading::Hash}});
  }
  switch (network.kind) {
    case NetworkKind::None:
    case NetworkKind::Star:
      break;
    case NetworkKind::FatTree:
      read_fat_tree(reader, network);
      break;
    case NetworkKind::Rail:
      read_leaves(reader, network);
      if (reader.has("cross_rail")) {
        network.cross_rail = reader.choice<CrossRail>(
            "cross_rail", {{"spine", CrossRail::Spine}, {"within-node", CrossRail::WithinNode}});
      }
      break;
    case NetworkKind::Torus:
      read_torus(reader, network, nodes_of(groups));
      break;
    case NetworkKind::Dragonfly:
      read_dragonfly(reader, network, nodes_of(groups));
      break;
    case NetworkKind::Graph:
      network.graph = read_switch_graph(reader, file, groups);
      break;
  }
  reader.finish();
  return network;
}

}  // namespace orrery::core
