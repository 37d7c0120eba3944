// Sums in the switch (NVLS). Each of a node's m members owns 1/m of the buffer: it reads the sum of
// that part, for which the switch reads the part from every member, and writes it to all, which the
// switch does for it. So a port carries S to be summed and S/m of sums out, and the same in:
//
//   (1 + 1/m) · S  each way, however many members
//
// Between nodes every member's part goes over two trees (core/network/collective/tree.cpp) of its
// own, so each card carries the tree of S/m. All of it moves at once.
// Source: NCCL src/device/all_reduce.h (NVLS, NVLS tree).

#include "core/error.h"
#include "core/network/collective/algorithms.h"

namespace orrery::core::collective {

std::vector<CollectivePhase> in_switch(const Nodes& nodes, Bytes bytes, const Steps& steps) {
  const std::optional<InSwitchCost>& cost = steps.costs().in_switch;
  ORRERY_CHECK(cost.has_value(), "a switch that makes no sums");
  CollectivePhase phase;
  phase.latency = cost->latency;
  const std::size_t m = nodes.front().size();
  for (const std::vector<Rank>& node : nodes) {
    const double share = 1.0 + 1.0 / static_cast<double>(m);
    for (std::size_t i = 0; i < m; ++i) {
      // What leaves one port for the switch and what enters another from it are as much; a transfer
      // to the next member loads the two alike.
      phase.transfers.push_back({node[i], node[(i + 1) % m], bytes * (share * cost->wire)});
    }
  }
  Seconds across;
  for (std::size_t i = 0; nodes.size() > 1 && i < m; ++i) {
    std::vector<Rank> heads;
    for (const std::vector<Rank>& node : nodes) heads.push_back(node[i]);
    const Bytes part = bytes / static_cast<double>(m);
    across = std::max(across, two_trees(heads, part, steps, phase.transfers));
  }
  phase.latency += across;
  phase.transfers = merged(std::move(phase.transfers));
  return {phase};
}

}  // namespace orrery::core::collective
