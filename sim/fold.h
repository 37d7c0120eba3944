#pragma once
// Which ranks are simulated: one for all that do the same at the same time.
//
// A rank stands for those that the following permutations σ of the ranks take it to:
//
//   (1) roles stay:        role(σ r) = role(r);
//   (2) the program stays: peer(σ r, slot) = σ(peer(r, slot)) and group(σ r, slot) = σ(group(r, slot));
//   (3) costs stay:        a communication of σ r takes what that of r takes, alone and beside those
//                          of the other ranks.
//
// Proof. When an instruction starts follows from the ends of its stream, of what it waits for and of
// its meeting's parties (core/program.h, (1) to (5)), when it ends from its duration, which is its
// role's, or from what its communication takes. By (1) and (2) all of these of σ r are σ of those of r;
// so if the ends up to some time are the same for r and σ r, by (3) the next ones are too.
//
// Moving all ranks of a plan along its data, sharding, expert or tensor axis, round and round, satisfies (1)
// and (2). So does moving them along the context axis; but where keys and values go round, a rank's
// peers are of its own role, and a rank alone has nobody to send to. There the ring is kept whole: one
// rank is simulated for each role and position in the ring, and stands for the same position of the
// other rings. As for (3): messages of a ring must cost the same for all that one stands for, for from
// hop to hop a slower one delays the others' (rings that lie in their nodes in different ways are
// not folded). Of other communications the slowest stands for all (sim/communication.h).
//
// Where networks are not made of levels alone, or something disturbs ranks or links, what is alike is
// found from the links themselves (sim/symmetry.h); then folding is exact whatever they are.

#include <optional>
#include <vector>

#include "core/cluster.h"
#include "core/network/topology.h"
#include "core/program.h"
#include "sim/symmetry.h"

namespace orrery::sim {

struct Fold {
  std::vector<core::Rank> simulated;  ///< Ascending.
  std::vector<std::vector<core::Rank>>
      others;  ///< Ranks that each of them stands for besides itself.
  /// Where communications and links stand for others too.
  std::optional<Symmetry> symmetry = {};
};

/// Every rank stands for itself.
Fold every_rank(const core::Program&);

/// One rank per role, and per position in the rings of a context group, chosen so that they are each
/// other's peers and meet in each other's groups. Absent where there is no such choice, where rings
/// lie differently in the topology, on networks whose nodes are not all alike (Topology::levels_alone),
/// or where ranks of one role differ in time: servers answer workers
/// one after another, so programs with pulls and pushes do not fold.
std::optional<Fold> folded_ranks(const core::Program&, const core::Topology&);

/// One rank of each class of a symmetry, chosen likewise. Absent where there is no such choice, and
/// for programs with pulls and pushes.
std::optional<Fold> folded_ranks(const core::Program&, Symmetry);

/// Whether a program has pulls and pushes.
bool uses_servers(const core::Program&);

/// Classes that refinement begins with: of each rank, the number of its role and place in a ring.
std::vector<std::size_t> ring_places(const core::Program&);

}  // namespace orrery::sim
