// Every pair at once: one latency however many members, n(n−1) transfers.

#include <algorithm>

#include "core/network/collective/algorithms.h"

namespace orrery::core::collective {
namespace {

CollectivePhase every_pair(const std::vector<Rank>& members, Bytes each, const Topology& topology) {
  CollectivePhase phase;
  phase.transfers.reserve(members.size() * (members.size() - 1));
  for (const Rank from : members) {
    for (const Rank to : members) {
      if (from == to) continue;
      phase.transfers.push_back({from, to, each});
      phase.latency = std::max(phase.latency, route_latency(topology, from, to));
    }
  }
  return phase;
}

CollectivePhase from_root(const std::vector<Rank>& members, Bytes bytes, const Topology& topology) {
  CollectivePhase phase;
  for (const Rank to : members) {
    if (to == members.front()) continue;
    phase.transfers.push_back({members.front(), to, bytes});
    phase.latency = std::max(phase.latency, route_latency(topology, members.front(), to));
  }
  return phase;
}

}  // namespace

std::vector<CollectivePhase> direct(CollectiveKind kind, const std::vector<Rank>& members,
                                    Bytes bytes, const Topology& topology) {
  if (kind == CollectiveKind::Broadcast) return {from_root(members, bytes, topology)};
  const CollectivePhase once =
      every_pair(members, bytes / static_cast<double>(members.size()), topology);
  // An all-reduce is a reduce-scatter, then an all-gather.
  if (kind == CollectiveKind::AllReduce) return {once, once};
  return {once};
}

}  // namespace orrery::core::collective
