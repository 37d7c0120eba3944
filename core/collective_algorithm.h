#pragma once
// A collective as transfers over routes: the one description that the simulator turns into flows and
// the cost model's closed forms are tested against.

#include <string>
#include <vector>

#include "core/program.h"
#include "core/topology.h"

namespace orrery::core {

enum class CollectiveAlgorithm { Ring, Tree, Hierarchical, Direct };
std::string_view algorithm_name(CollectiveAlgorithm);

struct Transfer {
  Rank from, to;
  Bytes bytes;
};

/// After `latency` all transfers move at once; the phase ends when the last has arrived.
struct CollectivePhase {
  Seconds latency;
  std::vector<Transfer> transfers;
};

/// Phases of `kind` over `members` (ordered) with `bytes` per rank (Collective::bytes).
std::vector<CollectivePhase> collective_phases(CollectiveAlgorithm, CollectiveKind,
                                               const std::vector<Rank>& members, Bytes,
                                               const Topology&);

/// The algorithm with the least uncontended time.
CollectiveAlgorithm choose_algorithm(CollectiveKind, const std::vector<Rank>& members, Bytes,
                                     const Topology&);

/// Σ over phases of latency + max over links of (bytes on the link / its bandwidth): the time when
/// nothing else uses the links.
Seconds uncontended_time(const std::vector<CollectivePhase>&, const Topology&);

}  // namespace orrery::core
