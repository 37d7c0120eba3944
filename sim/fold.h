#pragma once
// Which ranks are simulated. Ranks of one role do the same at the same time unless something tells
// them apart, so one of them can stand for all.

#include <optional>
#include <vector>

#include "core/program.h"

namespace orrery::sim {

struct Fold {
  std::vector<core::Rank> simulated;  ///< Ascending.
  std::vector<std::vector<core::Rank>>
      others;  ///< Ranks that each of them stands for besides itself.
};

/// Every rank stands for itself.
Fold every_rank(const core::Program&);

/// One rank per role, chosen so that they are each other's peers and meet in each other's groups.
/// Absent where there is no such choice, or where ranks of one role differ in time: servers answer
/// workers one after another, so programs with pulls and pushes do not fold.
std::optional<Fold> one_rank_per_role(const core::Program&);

}  // namespace orrery::sim
