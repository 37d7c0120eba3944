// Fat trees of two levels, or of three with pods:
//
//   card ──▶ leaf ══▶ spine ══▶ leaf ──▶ card
//   card ──▶ leaf ══▶ pod ══▶ core ══▶ pod ══▶ leaf ──▶ card
//
// A leaf's trunk up (and down) carries the cards under a full leaf divided by the oversubscription; a
// pod's trunk the trunks of a full pod divided by the pod's. Under Spreading::Even every spine has an
// equal part of each leaf's traffic, so all spines together are one, with one trunk to each leaf: the
// shares of the links are the same. Under Spreading::Hash a message goes whole through one spine (and
// one core), so they are all there (hashed_fat_tree).

#include <map>
#include <optional>
#include <vector>

#include "core/network/family/families.h"

namespace orrery::core::family {
namespace {

/// What the cards under a full leaf send together, of nodes like this one.
BytesPerSecond under_leaf(const NodeType& type, const Network& network) {
  return type.network_card.bandwidth *
         (network.efficiency * type.network_cards * network.nodes_per_leaf);
}

BytesPerSecond trunk_of_leaf(const NodeType& type, const Network& network) {
  return under_leaf(type, network) / network.oversubscription;
}

BytesPerSecond trunk_of_pod(const NodeType& type, const Network& network) {
  return trunk_of_leaf(type, network) * network.pods->leaves / network.pods->oversubscription;
}

class FatTree : public NetworkFamily {
 public:
  explicit FatTree(const Network& network) : network_(network) {}

  int switch_of(int node, const NodeType& type, int /*card*/, GraphBuilder& graph) override {
    const int leaf = node / network_.nodes_per_leaf;
    const auto [it, fresh] = leaves_.try_emplace(leaf);
    if (!fresh) return it->second;
    it->second = graph.vertex(kLeafLevel, leaf);
    const int above = network_.pods ? pod(leaf / network_.pods->leaves, type, graph) : top(graph);
    const LinkCost trunk{network_.hop_latency, trunk_of_leaf(type, network_)};
    graph.connect(it->second, above, {LinkKind::LeafUp, leaf, 0, trunk});
    graph.connect(above, it->second, {LinkKind::LeafDown, leaf, 0, trunk});
    return it->second;
  }

 private:
  int top(GraphBuilder& graph) {
    if (!top_) top_ = graph.vertex(network_.pods ? kCoreLevel : kSpineLevel);
    return *top_;
  }

  int pod(int which, const NodeType& type, GraphBuilder& graph) {
    const auto [it, fresh] = pods_.try_emplace(which);
    if (!fresh) return it->second;
    it->second = graph.vertex(kSpineLevel, which);
    const LinkCost trunk{network_.hop_latency, trunk_of_pod(type, network_)};
    graph.connect(it->second, top(graph), {LinkKind::PodUp, which, 0, trunk});
    graph.connect(top(graph), it->second, {LinkKind::PodDown, which, 0, trunk});
    return it->second;
  }

  Network network_;
  std::map<int, int> leaves_, pods_;  // Their vertices.
  std::optional<int> top_;
};

/// The links between one switch and those above it.
struct Trunks {
  std::vector<LinkId> up, down;
};

class HashedFatTree : public NetworkFamily {
 public:
  explicit HashedFatTree(const Network& network)
      : network_(network), spines_(network.spines.value_or(Spines{})) {}

  int switch_of(int node, const NodeType& type, int /*card*/, GraphBuilder& graph) override {
    const int leaf = node / network_.nodes_per_leaf;
    const auto [it, fresh] = leaves_.try_emplace(leaf);
    if (!fresh) return it->second;
    it->second = graph.vertex(kLeafLevel, leaf);
    const LinkCost trunk{network_.hop_latency, trunk_of_leaf(type, network_) / spines_.spines};
    for (int s = 0; s < spines_.spines; ++s) {
      const int above = spine(pod_of(leaf), s, type, graph);
      trunks_[leaf].up.push_back(
          graph.connect(it->second, above, {LinkKind::LeafUp, leaf, s, trunk}));
      trunks_[leaf].down.push_back(
          graph.connect(above, it->second, {LinkKind::LeafDown, leaf, s, trunk}));
    }
    return it->second;
  }

  void append_ways(const SwitchPair& pair, Route& route) const override {
    if (pair.from == pair.to) return;
    const auto s = static_cast<std::size_t>(hashed(pair.hash, 0, spines_.spines));
    route.push_back({trunks_.at(pair.from).up[s]});
    const int from = pod_of(pair.from);
    const int to = pod_of(pair.to);
    if (from != to) {
      const auto c = s * static_cast<std::size_t>(spines_.cores) +
                     static_cast<std::size_t>(hashed(pair.hash, 1, spines_.cores));
      route.push_back({pod_trunks_.at(from).up[c]});
      route.push_back({pod_trunks_.at(to).down[c]});
    }
    route.push_back({trunks_.at(pair.to).down[s]});
  }

 private:
  int pod_of(int leaf) const { return network_.pods ? leaf / network_.pods->leaves : 0; }

  // Spines and cores are on the leaves' level: their choice is append_ways()'s.
  int spine(int pod, int which, const NodeType& type, GraphBuilder& graph) {
    std::vector<int>& spines = pods_[pod];
    if (spines.empty()) add_pod(pod, spines, type, graph);
    return spines[static_cast<std::size_t>(which)];
  }

  void add_pod(int pod, std::vector<int>& spines, const NodeType& type, GraphBuilder& graph) {
    for (int s = 0; s < spines_.spines; ++s) spines.push_back(graph.vertex(kLeafLevel));
    if (!network_.pods) return;
    const int all = spines_.spines * spines_.cores;
    while (static_cast<int>(cores_.size()) < all) cores_.push_back(graph.vertex(kLeafLevel));
    const LinkCost trunk{network_.hop_latency, trunk_of_pod(type, network_) / all};
    Trunks& trunks = pod_trunks_[pod];
    for (int c = 0; c < all; ++c) {
      const int below = spines[static_cast<std::size_t>(c / spines_.cores)];
      const int core = cores_[static_cast<std::size_t>(c)];
      trunks.up.push_back(graph.connect(below, core, {LinkKind::PodUp, pod, c, trunk}));
      trunks.down.push_back(graph.connect(core, below, {LinkKind::PodDown, pod, c, trunk}));
    }
  }

  Network network_;
  Spines spines_;
  std::map<int, int> leaves_;             // Vertices.
  std::map<int, std::vector<int>> pods_;  // Of their spines.
  std::vector<int> cores_;
  std::map<int, Trunks> trunks_, pod_trunks_;  // By leaf, by pod.
};

}  // namespace

std::unique_ptr<NetworkFamily> fat_tree(const Network& network) {
  return std::make_unique<FatTree>(network);
}

std::unique_ptr<NetworkFamily> hashed_fat_tree(const Network& network) {
  return std::make_unique<HashedFatTree>(network);
}

}  // namespace orrery::core::family
