// Dragonflies: groups of switches; within a group every two switches have a wire, and every two groups
// have some, dealt to their switches in turn:
//
//   group 0:  0 ── 1 ── 2 ── 0        wire j to the k-th other group: switch (k · wires + j) mod size
//
// A message goes to a switch of its group that has a wire to the other group, over it, and on to its
// end: at most three wires (minimal routing). The wires between two groups carry an equal part each
// (Spreading::Even), or one of them the whole.
// Source: Kim, Dally, Scott, Abts, "Technology-driven, highly-scalable dragonfly topology", ISCA 2008.

#include <vector>

#include "core/network/family/families.h"

namespace orrery::core::family {
namespace {

class DragonflyFamily : public NetworkFamily {
 public:
  explicit DragonflyFamily(const Network& network)
      : shape_(network.dragonfly),
        spreading_(network.spreading),
        local_(reached(network.dragonfly.local, network.efficiency)),
        global_(reached(network.dragonfly.global, network.efficiency)) {}

  int switch_of(int node, const NodeType& /*type*/, int /*card*/, GraphBuilder& graph) override {
    if (switches_.empty()) add_switches(graph);
    return switches_[static_cast<std::size_t>(node / shape_.nodes_per_switch)];
  }

  void append_ways(const SwitchPair& pair, Route& route) const override {
    const int size = shape_.switches_per_group;
    const int from = pair.from / size;
    const int to = pair.to / size;
    if (from == to) {
      append_local(pair.from, pair.to, 1.0, route);
      return;
    }
    const int wires = shape_.links_between_groups;
    if (spreading_ == Spreading::Hash) {
      append_over(pair, hashed(pair.hash, 0, wires), 1.0, route);
      return;
    }
    for (int j = 0; j < wires; ++j) append_over(pair, j, 1.0 / wires, route);
  }

 private:
  std::size_t place(int a, int b, int count) const {
    return static_cast<std::size_t>(a) * static_cast<std::size_t>(count) +
           static_cast<std::size_t>(b);
  }

  /// The switch of `group` that has wire `j` to group `other`.
  int gate(int group, int other, int j) const {
    const int k = other < group ? other : other - 1;
    return group * shape_.switches_per_group +
           (k * shape_.links_between_groups + j) % shape_.switches_per_group;
  }

  void append_local(int from, int to, double share, Route& route) const {
    if (from == to) return;
    const int size = shape_.switches_per_group;
    route.push_back({locals_[place(from, to % size, size)], share});
  }

  void append_over(const SwitchPair& pair, int j, double share, Route& route) const {
    const int from = pair.from / shape_.switches_per_group;
    const int to = pair.to / shape_.switches_per_group;
    append_local(pair.from, gate(from, to, j), share, route);
    const std::size_t groups = place(from, to, shape_.groups);
    route.push_back({globals_[groups * static_cast<std::size_t>(shape_.links_between_groups) +
                              static_cast<std::size_t>(j)],
                     share});
    append_local(gate(to, from, j), pair.to, share, route);
  }

  LinkId wire(int from, int to, int which, const LinkCost& cost, GraphBuilder& graph) const {
    return graph.connect(switches_[static_cast<std::size_t>(from)],
                         switches_[static_cast<std::size_t>(to)],
                         {LinkKind::Wire, from, which, cost, to});
  }

  void add_switches(GraphBuilder& graph) {
    const int size = shape_.switches_per_group;
    const int all = shape_.groups * size;
    for (int s = 0; s < all; ++s) switches_.push_back(graph.vertex(kLeafLevel, s));
    locals_.resize(place(all, 0, size));
    for (int s = 0; s < all; ++s) {
      for (int other = 0; other < size; ++other) {
        const int to = s / size * size + other;
        if (to != s) locals_[place(s, other, size)] = wire(s, to, 0, local_, graph);
      }
    }
    const int wires = shape_.links_between_groups;
    globals_.resize(place(shape_.groups, 0, shape_.groups) * static_cast<std::size_t>(wires));
    for (int a = 0; a < shape_.groups; ++a) {
      for (int b = 0; b < shape_.groups; ++b) {
        for (int j = 0; a != b && j < wires; ++j) {
          globals_[place(a, b, shape_.groups) * static_cast<std::size_t>(wires) +
                   static_cast<std::size_t>(j)] =
              wire(gate(a, b, j), gate(b, a, j), j, global_, graph);
        }
      }
    }
  }

  Dragonfly shape_;
  Spreading spreading_;
  LinkCost local_, global_;
  std::vector<int> switches_;    // Vertices.
  std::vector<LinkId> locals_;   // By switch, then place in its group.
  std::vector<LinkId> globals_;  // By group, then group, then wire.
};

}  // namespace

std::unique_ptr<NetworkFamily> dragonfly(const Network& network) {
  return std::make_unique<DragonflyFamily>(network);
}

}  // namespace orrery::core::family
