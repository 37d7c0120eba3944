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
/// The host of a rank issues the instructions that take it time one after the other, those of a call
/// in the call's order. It begins a call when it has issued the call that it began before, and not
/// until the first of them could start but for this; none starts before it is issued. So a call takes
/// at least the sum of its issue times, however fast the device is. Instructions that take the host
/// no time are issued in time.
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
