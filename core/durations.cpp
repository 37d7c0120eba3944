#include "core/durations.h"

namespace orrery::core {

Durations zero_durations(const Program& program) {
  Durations durations;
  durations.by_instruction.reserve(program.roles.size());
  for (const Role& role : program.roles) {
    auto& blocks = durations.by_instruction.emplace_back();
    blocks.reserve(role.blocks.size());
    for (const Block& block : role.blocks) blocks.emplace_back(block.instructions.size());
  }
  return durations;
}

}  // namespace orrery::core
