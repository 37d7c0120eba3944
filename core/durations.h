#pragma once
// How long each compute instruction of a Program takes, and how long the host takes to issue each
// instruction: what the cost model predicts and what a measured trace fills. Communication is not
// here: the simulator derives it from the cluster.

#include <vector>

#include "core/program.h"
#include "core/units.h"

namespace orrery::core {

/// by_instruction[role][block][instruction]; zero for communication.
///
/// The host of a rank issues the instructions of a call's compute and tensor streams one after the
/// other, in the call's order, beginning when the first of them could start but for this; none
/// starts before it is issued. So a call takes at least the sum of its issue times, however fast
/// the device is. Instructions of other streams are issued in time.
struct Durations {
  using ByInstruction = std::vector<std::vector<std::vector<Seconds>>>;
  ByInstruction by_instruction;
  ByInstruction issue;  ///< Shaped like by_instruction; empty where the host takes no time.

  Seconds of(RoleId role, BlockId block, int instruction) const {
    return by_instruction[role.index()][block.index()][static_cast<std::size_t>(instruction)];
  }
};

/// All zero, shaped like the program.
Durations zero_durations(const Program&);

}  // namespace orrery::core
