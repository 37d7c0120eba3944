// Double binary tree. Nodes form two trees that are mirror images, so that an inner node of one is
// (nearly always) a leaf of the other; each reduces to its root and broadcasts back half of the
// bytes:
//
//   tree A        0                tree B        4
//               1   2                          3   2
//              3 4                            1 0
//
// All parts move at once (small pieces follow each other), so a member sends at most
// (1 up + 2 down + 1 up) · S/2 = 2·S, and the first piece needs the height twice. Within a node the
// members form a chain to the channel's head, which is the one that talks to other nodes.
// Source: Sanders, Speck, Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and
// scan", Parallel Computing 35(12), 2009; NCCL uses trees across nodes and chains within.

#include <algorithm>

#include "core/network/collective/algorithms.h"

namespace orrery::core::collective {
namespace {

void add_both_ways(std::vector<Transfer>& transfers, Rank a, Rank b, Bytes bytes) {
  transfers.push_back({a, b, bytes});
  transfers.push_back({b, a, bytes});
}

int height_of(std::size_t nodes) {
  int height = 0;
  for (; nodes > 1; nodes /= 2) ++height;
  return height;
}

}  // namespace

std::vector<CollectivePhase> tree_all_reduce(const Nodes& nodes, Bytes bytes,
                                             const Topology& topology) {
  const int channels = channels_of(nodes);
  const std::size_t n = nodes.size();
  CollectivePhase phase;
  Seconds across;  // Longest α of an edge between nodes.
  Seconds chain;   // Longest Σ α of a node's chain.
  for (int c = 0; c < channels; ++c) {
    const auto head = [&](std::size_t node) {
      return nodes[node][entry_of(nodes[node].size(), c, channels)];
    };
    const Bytes part = bytes / channels;
    for (std::size_t i = 0; i < n; ++i) {
      Seconds along;
      const std::size_t entry = entry_of(nodes[i].size(), c, channels);
      for (std::size_t j = 0; j + 1 < nodes[i].size(); ++j) {
        const Rank a = nodes[i][(entry + j) % nodes[i].size()];
        const Rank b = nodes[i][(entry + j + 1) % nodes[i].size()];
        add_both_ways(phase.transfers, a, b, part);
        along += route_latency(topology, b, a);
      }
      chain = std::max(chain, along);
      if (i == 0) continue;
      const std::size_t parent = (i - 1) / 2;
      add_both_ways(phase.transfers, head(i), head(parent), part / 2);
      add_both_ways(phase.transfers, head(n - 1 - i), head(n - 1 - parent), part / 2);
      across = std::max({across, route_latency(topology, head(i), head(parent)),
                         route_latency(topology, head(n - 1 - i), head(n - 1 - parent))});
    }
  }
  phase.latency = 2 * (chain + height_of(n) * across);
  phase.transfers = merged(std::move(phase.transfers));
  return {phase};
}

}  // namespace orrery::core::collective
