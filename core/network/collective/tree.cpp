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

/// What a byte of an edge counts between nodes, as if the busiest had four edges from three nodes
/// on; the busiest of three or four has three.
double edge_wire(std::size_t nodes, const Collectives& costs) {
  if (!costs.tree_wire) return 1.0;
  return *costs.tree_wire * (nodes == 3 || nodes == 4 ? 4.0 / 3.0 : 1.0);
}

/// What a byte of a chain counts within nodes. Two devices alone have one edge, not two.
double chain_wire(const Nodes& nodes, const Collectives& costs) {
  if (!costs.tree_wire) return 1.0;
  return *costs.tree_wire * (nodes.size() == 1 && nodes.front().size() == 2 ? 2.0 : 1.0);
}

}  // namespace

Seconds two_trees(const std::vector<Rank>& heads, Bytes bytes, const Steps& steps,
                  std::vector<Transfer>& transfers) {
  const std::size_t n = heads.size();
  const Bytes half = steps.wire(bytes * (edge_wire(n, steps.costs()) / 2));
  Seconds across;  // Longest α of an edge.
  for (std::size_t i = 1; i < n; ++i) {
    const std::size_t parent = (i - 1) / 2;
    for (const auto& [a, b] :
         {std::pair(heads[i], heads[parent]), std::pair(heads[n - 1 - i], heads[n - 1 - parent])}) {
      add_both_ways(transfers, a, b, half);
      across = std::max(across, steps.latency(a, b));
    }
  }
  return across * (2 * height_of(n));
}

std::vector<CollectivePhase> tree_all_reduce(const Nodes& nodes, Bytes bytes, const Steps& steps) {
  const int channels = channels_of(nodes);
  const Bytes part = bytes / channels;
  const Bytes in_chain = part * chain_wire(nodes, steps.costs());
  CollectivePhase phase;
  Seconds across, chain;  // Between nodes and back; longest Σ α of a node's chain.
  for (int c = 0; c < channels; ++c) {
    std::vector<Rank> heads;
    for (const std::vector<Rank>& node : nodes) {
      const std::size_t entry = entry_of(node.size(), c, channels);
      heads.push_back(node[entry]);
      Seconds along;
      for (std::size_t j = 0; j + 1 < node.size(); ++j) {
        const Rank a = node[(entry + j) % node.size()];
        const Rank b = node[(entry + j + 1) % node.size()];
        add_both_ways(phase.transfers, a, b, steps.inside(in_chain, node));
        along += steps.latency(b, a);
      }
      chain = std::max(chain, along);
    }
    across = std::max(across, two_trees(heads, part, steps, phase.transfers));
  }
  phase.latency = 2 * chain + across;
  phase.transfers = merged(std::move(phase.transfers));
  return {phase};
}

}  // namespace orrery::core::collective
