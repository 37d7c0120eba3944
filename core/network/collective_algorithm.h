#pragma once
// A collective as transfers over routes: the one description that the simulator turns into flows
// and the cost model's closed forms are tested against.
//
// A phase is a latency, then transfers that move together in proportion to their bytes (the steps
// of a ring wait for each other, so no part runs ahead), then what its members add up, hence
//   T = Σ_phases ( latency + max_links( bytes on the link / β ) + sums )
// when nothing else uses them.
//
// With n members and S bytes (Collective::bytes) on links of equal α and β this is
//   ring          all-reduce 2(n−1)·α + 2(n−1)/n · S/β; reduce-scatter and all-gather half of it;
//                 broadcast (n−1)·α + S/β
//   tree          all-reduce 2·⌊log2 n⌋·α + 2·S/β (at most; double binary tree, pipelined)
//   hierarchical  rings: reduce-scatter in each node, all-reduce across nodes, all-gather in each
//   direct        every pair at once: all-to-all, reduce-scatter, all-gather α + (n−1)/n · S/β,
//                 all-reduce twice that, broadcast α + (n−1)·S/β
//   exchange      all-reduce α + (n−1)·S/β: every member sends all it has to all
//   in the switch all-reduce latency + (1 + 1/n)·S/β; with trees between nodes
// and what the library adds to it (core/collective_library.h): `base`, a protocol's steps and wire,
// ring_ends, sums of the inputs at `reduction`.
// Source: Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005 (rings, direct); Sanders, Speck, Träff,
// Parallel Computing 35(12), 2009 (two trees).
//
// Members are taken node by node. Rings and trees across nodes run as channels: with m members on
// every node, channel c enters and leaves each node at other members, so all their cards carry 1/m.

#include <vector>

#include "core/network/collective_choice.h"
#include "core/network/topology.h"
#include "core/program.h"

namespace orrery::core {

struct Transfer {
  Rank from, to;
  Bytes bytes;
};

struct CollectivePhase {
  Seconds latency;
  std::vector<Transfer> transfers;
  Seconds sums{};  ///< Of a member's own work on what has come, on each at once.
};

GroupShape shape_of(const std::vector<Rank>& members, const Topology&);

/// Ring: all but AllToAll. Tree and Exchange: AllReduce. Hierarchical: AllReduce, ReduceScatter and
/// AllGather on two levels (GroupShape). InSwitch: AllReduce on one node of a cluster that has
/// in_switch; InSwitchTree: likewise on two levels. Direct: all.
bool supports(CollectiveAlgorithm, CollectiveKind, const std::vector<Rank>& members,
              const Topology&);

/// Phases of `kind` over `members` (ordered; the first is the root of a broadcast) with `bytes` per
/// rank (Collective::bytes). None for fewer than two members. Linear in `bytes`, but for latencies.
std::vector<CollectivePhase> collective_phases(CollectiveMethod, CollectiveKind,
                                               const std::vector<Rank>& members, Bytes,
                                               const Topology&);

/// What the cluster's library takes (core/network/collective_choice.h).
CollectiveMethod choose_method(CollectiveKind, const std::vector<Rank>& members, Bytes,
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
/// has the transfers of all i-th phases and the longest of their latencies and sums.
std::vector<CollectivePhase> together(const std::vector<std::vector<CollectivePhase>>&);

}  // namespace orrery::core
