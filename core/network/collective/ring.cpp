// Rings. Channel c visits the nodes in order; within a node it starts at the member where it enters
// and leaves at the one before it:
//
//   channel 0:  0 → 1 → 2 → 3 ⇒ 4 → 5 → 6 → 7 ⇒ 0      ⇒ crosses nodes
//   channel 1:  1 → 2 → 3 → 0 ⇒ 5 → 6 → 7 → 4 ⇒ 1
//
// Over all four channels each of the eight members carries a quarter of what leaves its node.

#include <numeric>

#include "core/error.h"
#include "core/network/collective/algorithms.h"

namespace orrery::core::collective {
namespace {

/// Members in the order of channel `c`'s ring.
std::vector<Rank> ring_order(const Nodes& nodes, int c, int channels) {
  std::vector<Rank> order;
  for (const std::vector<Rank>& node : nodes) {
    const std::size_t entry = entry_of(node.size(), c, channels);
    for (std::size_t i = 0; i < node.size(); ++i) {
      order.push_back(node[(entry + i) % node.size()]);
    }
  }
  return order;
}

struct RingShape {
  double steps = 0;   ///< Steps of one message each: α is paid that often.
  double share = 0;   ///< Bytes over one edge of the ring / Collective::bytes.
  bool open = false;  ///< Nothing enters the root.
};

RingShape shape_of(CollectiveKind kind, double n) {
  switch (kind) {
    case CollectiveKind::AllReduce:
      return {2 * (n - 1), 2 * (n - 1) / n, false};
    case CollectiveKind::ReduceScatter:
    case CollectiveKind::AllGather:
      return {n - 1, (n - 1) / n, false};
    case CollectiveKind::Broadcast:
      return {n - 1, 1, true};
    case CollectiveKind::AllToAll:
      break;
  }
  ORRERY_CHECK(false, "no ring for this collective");
}

}  // namespace

std::vector<CollectivePhase> ring(CollectiveKind kind, const Nodes& nodes, Bytes bytes,
                                  const Topology& topology) {
  const Rank root = nodes.front().front();
  const int channels = channels_of(nodes);
  CollectivePhase phase;
  for (int c = 0; c < channels; ++c) {
    const std::vector<Rank> order = ring_order(nodes, c, channels);
    const std::size_t n = order.size();
    const RingShape shape = shape_of(kind, static_cast<double>(n));
    Seconds around;
    for (std::size_t i = 0; i < n; ++i) {
      const Rank from = order[i];
      const Rank to = order[(i + 1) % n];
      if (shape.open && to == root) continue;
      phase.transfers.push_back({from, to, bytes * (shape.share / channels)});
      if (c == 0) around += route_latency(topology, from, to);
    }
    // A block passes `steps` edges one after another: each edge's α counts in proportion.
    const double edges = static_cast<double>(shape.open ? n - 1 : n);
    if (c == 0) phase.latency = around * (shape.steps / edges);
  }
  phase.transfers = merged(std::move(phase.transfers));
  return {phase};
}

}  // namespace orrery::core::collective
