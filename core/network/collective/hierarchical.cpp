// Two levels: what crosses the network is 1/m of the buffer for each of a node's m members.
//
//   all-reduce       reduce-scatter in each node, all-reduce of S/m across nodes by position in the
//                    node (m rings at once), all-gather in each node
//   reduce-scatter   its first half, all-gather its second

#include <optional>

#include "core/error.h"
#include "core/network/collective/algorithms.h"

namespace orrery::core::collective {
namespace {

std::vector<CollectivePhase> inside(CollectiveKind kind, const Nodes& nodes, Bytes bytes,
                                    const Steps& steps) {
  std::vector<std::vector<CollectivePhase>> parts;
  for (const std::vector<Rank>& node : nodes) parts.push_back(ring(kind, {node}, bytes, steps));
  return together(parts);
}

std::vector<CollectivePhase> across(CollectiveKind kind, const Nodes& nodes, Bytes bytes,
                                    const Steps& steps) {
  std::vector<std::vector<CollectivePhase>> parts;
  for (std::size_t j = 0; j < nodes.front().size(); ++j) {
    Nodes rail;
    for (const std::vector<Rank>& node : nodes) rail.push_back({node[j]});
    parts.push_back(ring(kind, rail, bytes / static_cast<double>(nodes.front().size()), steps));
  }
  return together(parts);
}

void append(std::vector<CollectivePhase>& phases, std::vector<CollectivePhase> more) {
  for (CollectivePhase& p : more) phases.push_back(std::move(p));
}

}  // namespace

std::vector<CollectivePhase> hierarchical(CollectiveKind kind, const Nodes& nodes, Bytes bytes,
                                          const Steps& steps) {
  const bool scatters = kind != CollectiveKind::AllGather;
  const bool gathers = kind != CollectiveKind::ReduceScatter;
  std::vector<CollectivePhase> phases;
  if (scatters) append(phases, inside(CollectiveKind::ReduceScatter, nodes, bytes, steps));
  append(phases, across(kind, nodes, bytes, steps));
  if (gathers) append(phases, inside(CollectiveKind::AllGather, nodes, bytes, steps));
  return phases;
}

}  // namespace orrery::core::collective
