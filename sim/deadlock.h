#pragma once
// Why nothing can happen any more.

#include <string>
#include <vector>

#include "core/program.h"
#include "sim/rank_state.h"
#include "sim/rendezvous.h"

namespace orrery::sim {

/// A place where somebody waits.
struct OpenPlace {
  core::MeetingPlace place;
  std::vector<core::Rank> arrived;
};

/// The circle of instructions that wait for each other, or the one that waits for something that
/// never comes; each with its rank, call and label. For ranks of which one at least is not done.
std::string explain_deadlock(const core::Program&, const std::vector<RankState>&,
                             const std::vector<OpenPlace>&);

}  // namespace orrery::sim
