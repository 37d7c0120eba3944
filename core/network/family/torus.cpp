// Tori: switches on a grid, each with a wire to its neighbours along every side, whose ends are
// neighbours too.
//
//   ┌─ 0 ── 1 ── 2 ─┐
//   └───────────────┘
//
// A message goes along the first side until it is level with its end, then along the second, and so
// on (dimension order), always the shorter way round; where both are equally long, each has half of it
// (Spreading::Even), or one all of it. A side of two has one wire each way.
// Source of the order: Dally, Seitz, IEEE Transactions on Computers C-36(5), 1987.

#include <numeric>
#include <optional>
#include <vector>

#include "core/network/family/families.h"

namespace orrery::core::family {
namespace {

class TorusFamily : public NetworkFamily {
 public:
  explicit TorusFamily(const Network& network) : torus_(network.torus), even_(network.spreading) {
    wire_ = reached(torus_.link, network.efficiency);
  }

  int switch_of(int node, const NodeType& /*type*/, int /*card*/, GraphBuilder& graph) override {
    if (switches_.empty()) add_switches(graph);
    return switches_[static_cast<std::size_t>(node / torus_.nodes_per_switch)];
  }

  void append_ways(const SwitchPair& pair, Route& route) const override {
    int at = pair.from;
    for (std::size_t d = 0; d < torus_.sides.size(); ++d) {
      const int side = torus_.sides[d];
      const int ahead = (coordinate(pair.to, d) - coordinate(at, d) + side) % side;
      if (ahead == 0) continue;
      if (2 * ahead != side || side == 2) {
        walk(at, d, 2 * ahead > side, {ahead, 1.0}, route);
      } else if (even_ == Spreading::Even) {
        walk(at, d, false, {ahead, 0.5}, route);
        walk(at, d, true, {ahead, 0.5}, route);
      } else {
        walk(at, d, hashed(pair.hash, static_cast<int>(d), 2) == 1, {ahead, 1.0}, route);
      }
      at = moved(at, d, ahead);
    }
  }

 private:
  struct Walk {
    int ahead = 0;  // Forwards; the rest of the side where it goes backwards.
    double share = 1.0;
  };

  int stride(std::size_t d) const {
    return std::accumulate(torus_.sides.begin(),
                           torus_.sides.begin() + static_cast<std::ptrdiff_t>(d), 1,
                           std::multiplies<>());
  }
  int coordinate(int s, std::size_t d) const { return s / stride(d) % torus_.sides[d]; }
  int moved(int s, std::size_t d, int by) const {
    const int side = torus_.sides[d];
    return s + ((coordinate(s, d) + by + side) % side - coordinate(s, d)) * stride(d);
  }

  void walk(int at, std::size_t d, bool backwards, Walk walk, Route& route) const {
    const int steps = backwards ? torus_.sides[d] - walk.ahead : walk.ahead;
    for (int i = 0; i < steps; ++i) {
      route.push_back(
          {wires_[static_cast<std::size_t>(at)][2 * d + (backwards ? 1 : 0)].value(), walk.share});
      at = moved(at, d, backwards ? -1 : 1);
    }
  }

  void add_switches(GraphBuilder& graph) {
    const int all = stride(torus_.sides.size());
    for (int s = 0; s < all; ++s) switches_.push_back(graph.vertex(kLeafLevel, s));
    for (int s = 0; s < all; ++s) {
      auto& own = wires_.emplace_back(2 * torus_.sides.size());
      for (std::size_t d = 0; d < torus_.sides.size(); ++d) {
        const int side = torus_.sides[d];
        if (side > 1) own[2 * d] = wire(s, moved(s, d, 1), graph);
        if (side > 2) own[2 * d + 1] = wire(s, moved(s, d, -1), graph);
        if (side == 2) own[2 * d + 1] = own[2 * d];
      }
    }
  }

  LinkId wire(int from, int to, GraphBuilder& graph) const {
    return graph.connect(switches_[static_cast<std::size_t>(from)],
                         switches_[static_cast<std::size_t>(to)],
                         {LinkKind::Wire, from, 0, wire_, to});
  }

  Torus torus_;
  Spreading even_;
  LinkCost wire_;
  std::vector<int> switches_;                              // Vertices.
  std::vector<std::vector<std::optional<LinkId>>> wires_;  // Of a switch: by side, on and back.
};

}  // namespace

std::unique_ptr<NetworkFamily> torus(const Network& network) {
  return std::make_unique<TorusFamily>(network);
}

}  // namespace orrery::core::family
