#pragma once
// How long each compute instruction of a Program takes: what the cost model predicts and what a
// measured trace fills. Communication is not here: the simulator derives it from the cluster.

#include <vector>

#include "core/program.h"
#include "core/units.h"

namespace orrery::core {

/// by_instruction[role][block][instruction]; zero for communication.
struct Durations {
  std::vector<std::vector<std::vector<Seconds>>> by_instruction;

  Seconds of(RoleId role, BlockId block, int instruction) const {
    return by_instruction[role.index()][block.index()][static_cast<std::size_t>(instruction)];
  }
};

/// All zero, shaped like the program.
Durations zero_durations(const Program&);

}  // namespace orrery::core
