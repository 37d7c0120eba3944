// Rail-optimised pods. Card c of every node plugs into the leaf of rail c, one for so many nodes; the
// spines join all leaves, and are one as in an evenly spread fat tree:
//
//   node 0 card 0 ──▶ leaf of rail 0 ──▶ node 1 card 0
//   node 0 card 1 ──▶ leaf of rail 1 ══▶ spine ══▶ leaf of rail 0 ──▶ node 1 card 0
//
// What goes to a card of another rail passes the spines, or first the fabric of its own node
// (CrossRail).

#include <map>
#include <optional>
#include <utility>

#include "core/network/family/families.h"

namespace orrery::core::family {
namespace {

class Rails : public NetworkFamily {
 public:
  explicit Rails(const Network& network) : network_(network) {}

  int switch_of(int node, const NodeType& type, int card, GraphBuilder& graph) override {
    const int pod = node / network_.nodes_per_leaf;
    const auto [it, fresh] = leaves_.try_emplace({pod, card});
    if (!fresh) return it->second;
    it->second = graph.vertex(kLeafLevel);
    if (!spine_) spine_ = graph.vertex(kSpineLevel);
    // A leaf has one card of each node; several that act as one count.
    const int cards = std::min(type.network_cards, type.devices);
    const BytesPerSecond down =
        type.network_card.bandwidth *
        (network_.efficiency * type.network_cards * network_.nodes_per_leaf / cards);
    const LinkCost trunk{network_.hop_latency, down / network_.oversubscription};
    graph.connect(it->second, *spine_, {LinkKind::RailUp, pod, card, trunk});
    graph.connect(*spine_, it->second, {LinkKind::RailDown, pod, card, trunk});
    return it->second;
  }

 private:
  Network network_;
  std::map<std::pair<int, int>, int> leaves_;  // By pod and rail.
  std::optional<int> spine_;
};

}  // namespace

std::unique_ptr<NetworkFamily> rails(const Network& network) {
  return std::make_unique<Rails>(network);
}

}  // namespace orrery::core::family
