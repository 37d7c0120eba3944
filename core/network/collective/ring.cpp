// Rings. Channel c visits the nodes in order; within a node it starts at the member where it enters
// and leaves at the one before it:
//
//   channel 0:  0 → 1 → 2 → 3 ⇒ 4 → 5 → 6 → 7 ⇒ 0      ⇒ crosses nodes
//   channel 1:  1 → 2 → 3 → 0 ⇒ 5 → 6 → 7 → 4 ⇒ 1
//
// Over all four channels each of the eight members carries a quarter of what leaves its node.

#include "core/error.h"
#include "core/network/collective/algorithms.h"

namespace orrery::core::collective {
namespace {

/// An edge of a ring; `inside` names the node that it stays in.
struct Edge {
  Rank from, to;
  const std::vector<Rank>* inside = nullptr;
};

/// Edges of channel `c`'s ring; the last leads back to its first member.
std::vector<Edge> ring_edges(const Nodes& nodes, int c, int channels) {
  std::vector<Edge> edges;
  for (std::size_t k = 0; k < nodes.size(); ++k) {
    const std::vector<Rank>& node = nodes[k];
    const std::vector<Rank>& next = nodes[(k + 1) % nodes.size()];
    const std::size_t entry = entry_of(node.size(), c, channels);
    const auto member = [&](std::size_t i) { return node[(entry + i) % node.size()]; };
    for (std::size_t i = 0; i + 1 < node.size(); ++i) {
      edges.push_back({member(i), member(i + 1), &node});
    }
    edges.push_back({member(node.size() - 1), next[entry_of(next.size(), c, channels)],
                     nodes.size() == 1 ? &node : nullptr});
  }
  return edges;
}

struct RingShape {
  double steps = 0;   ///< Steps of one message each: α is paid that often.
  double share = 0;   ///< Bytes over one edge of the ring / Collective::bytes.
  bool open = false;  ///< Nothing enters the root.
};

/// @param ends  Collectives::ring_ends.
RingShape shape_of(CollectiveKind kind, double n, double ends) {
  switch (kind) {
    case CollectiveKind::AllReduce:
      return {2 * (n - 1), (2 * (n - 1) + ends) / n, false};
    case CollectiveKind::ReduceScatter:
    case CollectiveKind::AllGather:
      return {n - 1, (n - 1 + ends) / n, false};
    case CollectiveKind::Broadcast:
      return {n - 1, 1, true};
    case CollectiveKind::AllToAll:
      break;
  }
  ORRERY_CHECK(false, "no ring for this collective");
}

}  // namespace

std::vector<CollectivePhase> ring(CollectiveKind kind, const Nodes& nodes, Bytes bytes,
                                  const Steps& steps) {
  const Rank root = nodes.front().front();
  const int channels = channels_of(nodes);
  CollectivePhase phase;
  for (int c = 0; c < channels; ++c) {
    const std::vector<Edge> edges = ring_edges(nodes, c, channels);
    const auto n = static_cast<double>(edges.size());
    const RingShape shape = shape_of(kind, n, steps.costs().ring_ends);
    const Bytes share = bytes * (shape.share / channels);
    Seconds around;
    for (const Edge& edge : edges) {
      if (shape.open && edge.to == root) continue;
      phase.transfers.push_back(
          {edge.from, edge.to,
           edge.inside != nullptr ? steps.inside(share, *edge.inside) : steps.wire(share)});
      if (c == 0) around += steps.latency(edge.from, edge.to);
    }
    // A block passes `steps` edges one after another: each edge's α counts in proportion.
    if (c == 0) phase.latency = around * (shape.steps / (shape.open ? n - 1 : n));
  }
  phase.transfers = merged(std::move(phase.transfers));
  return {phase};
}

}  // namespace orrery::core::collective
