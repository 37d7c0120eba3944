// Every pair at once: one latency however many members, n(n−1) transfers. Where sums are made each
// member adds up n parts of S/n; with one exchange n whole buffers, and nothing more is sent.

#include <algorithm>

#include "core/network/collective/algorithms.h"

namespace orrery::core::collective {
namespace {

CollectivePhase every_pair(const std::vector<Rank>& members, Bytes each, const Steps& steps) {
  CollectivePhase phase;
  phase.transfers.reserve(members.size() * (members.size() - 1));
  for (const Rank from : members) {
    for (const Rank to : members) {
      if (from == to) continue;
      phase.transfers.push_back({from, to, steps.wire(each)});
      phase.latency = std::max(phase.latency, steps.latency(from, to));
    }
  }
  return phase;
}

CollectivePhase from_root(const std::vector<Rank>& members, Bytes bytes, const Steps& steps) {
  CollectivePhase phase;
  for (const Rank to : members) {
    if (to == members.front()) continue;
    phase.transfers.push_back({members.front(), to, steps.wire(bytes)});
    phase.latency = std::max(phase.latency, steps.latency(members.front(), to));
  }
  return phase;
}

/// What each member adds up takes.
Seconds sums(Bytes inputs, const Steps& steps) {
  return steps.costs().reduction ? inputs / *steps.costs().reduction : Seconds(0);
}

}  // namespace

std::vector<CollectivePhase> direct(CollectiveKind kind, const std::vector<Rank>& members,
                                    Bytes bytes, const Steps& steps) {
  if (kind == CollectiveKind::Broadcast) return {from_root(members, bytes, steps)};
  const CollectivePhase moved =
      every_pair(members, bytes / static_cast<double>(members.size()), steps);
  CollectivePhase reduced = moved;
  reduced.sums = sums(bytes, steps);
  // An all-reduce is a reduce-scatter, then an all-gather.
  if (kind == CollectiveKind::AllReduce) return {reduced, moved};
  if (kind == CollectiveKind::ReduceScatter) return {reduced};
  return {moved};
}

std::vector<CollectivePhase> exchange(const std::vector<Rank>& members, Bytes bytes,
                                      const Steps& steps) {
  CollectivePhase phase = every_pair(members, bytes, steps);
  phase.sums = sums(bytes * static_cast<double>(members.size()), steps);
  return {phase};
}

}  // namespace orrery::core::collective
