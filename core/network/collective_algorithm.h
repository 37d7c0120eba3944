#pragma once
// A collective as transfers over routes: the one description that the simulator turns into flows
// and the cost model's closed forms are tested against.
//
// A phase is a latency, then transfers that move together in proportion to their bytes (the steps
// of a ring wait for each other, so no part runs ahead), hence
//   T = Σ_phases ( latency + max_links( bytes on the link / β ) )    when nothing else uses them.
//
// With n members and S bytes (Collective::bytes) on links of equal α and β this is
//   ring          all-reduce 2(n−1)·α + 2(n−1)/n · S/β; reduce-scatter and all-gather half of it;
//                 broadcast (n−1)·α + S/β
//   tree          all-reduce 2·⌊log2 n⌋·α + 2·S/β (at most; double binary tree, pipelined)
//   hierarchical  rings: reduce-scatter in each node, all-reduce across nodes, all-gather in each
//   direct        every pair at once: all-to-all, reduce-scatter, all-gather α + (n−1)/n · S/β,
//                 all-reduce twice that, broadcast α + (n−1)·S/β
// Source: Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005 (rings, direct); Sanders, Speck, Träff,
// Parallel Computing 35(12), 2009 (two trees).
//
// Members are taken node by node. Rings and trees across nodes run as channels: with m members on
// every node, channel c enters and leaves each node at other members, so all their cards carry 1/m.

#include <string_view>
#include <vector>

#include "core/network/topology.h"
#include "core/program.h"

namespace orrery::core {

enum class CollectiveAlgorithm { Ring, Tree, Hierarchical, Direct };
inline constexpr int kCollectiveAlgorithms = 4;
std::string_view algorithm_name(CollectiveAlgorithm);

struct Transfer {
  Rank from, to;
  Bytes bytes;
};

struct CollectivePhase {
  Seconds latency;
  std::vector<Transfer> transfers;
};

/// Ring: all but AllToAll. Tree: AllReduce. Hierarchical: AllReduce, ReduceScatter and AllGather of
/// the same number of members, at least two, on each of at least two nodes. Direct: all.
bool supports(CollectiveAlgorithm, CollectiveKind, const std::vector<Rank>& members,
              const Topology&);

/// Phases of `kind` over `members` (ordered; the first is the root of a broadcast) with `bytes` per
/// rank (Collective::bytes). None for fewer than two members. Linear in `bytes`, but for latencies.
std::vector<CollectivePhase> collective_phases(CollectiveAlgorithm, CollectiveKind,
                                               const std::vector<Rank>& members, Bytes,
                                               const Topology&);

/// The algorithms that a library would choose among: Direct for AllToAll and never else, as in
/// NCCL; Ring first, then Tree and Hierarchical where they are supported.
std::vector<CollectiveAlgorithm> algorithms_for(CollectiveKind, const std::vector<Rank>& members,
                                                const Topology&);

/// That with the least uncontended time, the first of equals.
CollectiveAlgorithm choose_algorithm(CollectiveKind, const std::vector<Rank>& members, Bytes,
                                     const Topology&);

/// Bytes that cross one link.
struct LinkLoad {
  LinkId link;
  Bytes bytes;
};

/// Sum over the transfers of a phase, by link in ascending order.
std::vector<LinkLoad> link_loads(const std::vector<Transfer>&, const Topology&);

/// Time of the transfers alone: max over links of bytes / β.
Seconds transfer_time(const std::vector<Transfer>&, const Topology&);

/// T of the paragraph above.
Seconds uncontended_time(const std::vector<CollectivePhase>&, const Topology&);

/// Phases of several collectives that run in step, as those of sibling groups do: the i-th phase
/// has the transfers of all i-th phases and the longest of their latencies.
std::vector<CollectivePhase> together(const std::vector<std::vector<CollectivePhase>>&);

}  // namespace orrery::core
