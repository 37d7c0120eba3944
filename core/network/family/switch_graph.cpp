// Any graph of switches. Messages take the ways of the fewest wires (core/network/shortest_ways.h).

#include <map>
#include <optional>
#include <utility>

#include "core/network/family/families.h"
#include "core/network/shortest_ways.h"

namespace orrery::core::family {
namespace {

class Graph : public NetworkFamily {
 public:
  explicit Graph(const Network& network) : shape_(network.graph), network_(network) {}

  int switch_of(int node, const NodeType& /*type*/, int card, GraphBuilder& graph) override {
    if (!ways_) add_switches(graph);
    const std::vector<int>& attached = shape_.attached[static_cast<std::size_t>(node)];
    const std::size_t at = attached.size() == 1 ? 0 : static_cast<std::size_t>(card);
    return switches_[static_cast<std::size_t>(attached[at])];
  }

  void append_ways(const SwitchPair& pair, Route& route) const override {
    const bool found = ways_->append(pair, network_.spreading,
                                     distances_[static_cast<std::size_t>(pair.to)], route);
    ORRERY_CHECK(found, "switches of a graph that has been read are connected");
  }

 private:
  void add_switches(GraphBuilder& graph) {
    const auto count = static_cast<int>(shape_.switches.size());
    for (int s = 0; s < count; ++s) switches_.push_back(graph.vertex(kLeafLevel, s));
    std::vector<ShortestWays::Wire> wires;
    std::map<std::pair<int, int>, int> parallel;
    for (const SwitchGraph::Wire& wire : shape_.wires) {
      const int which = parallel[{wire.from, wire.to}]++;
      const Link link{LinkKind::Wire, wire.from, which, reached(wire.cost, network_.efficiency),
                      wire.to};
      wires.push_back({wire.from, wire.to,
                       graph.connect(switches_[static_cast<std::size_t>(wire.from)],
                                     switches_[static_cast<std::size_t>(wire.to)], link)});
    }
    ways_.emplace(count, wires);
    for (int s = 0; s < count; ++s) distances_.push_back(ways_->distances(s));
  }

  SwitchGraph shape_;
  Network network_;
  std::vector<int> switches_;  // Vertices.
  std::optional<ShortestWays> ways_;
  std::vector<std::vector<std::optional<int>>> distances_;  // By where they lead.
};

}  // namespace

std::unique_ptr<NetworkFamily> switch_graph(const Network& network) {
  return std::make_unique<Graph>(network);
}

}  // namespace orrery::core::family
