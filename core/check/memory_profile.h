#pragma once
// Live memory of a rank over a step, from its instructions alone.

#include <string>
#include <utility>
#include <vector>

#include "core/program.h"

namespace orrery::core {

/// Live memory of one rank of a role after each instruction of a step in program order. What is
/// fetched from peers or data counts from the earliest point that its waits allow, and what is sent
/// until an instruction starts that waits for its arrival (core/lowering/message_bounds.h), so a run
/// holds at most this much at its peak.
struct MemoryProfile {
  Bytes persistent;                                   ///< Buffers of scope Run.
  Bytes peak;                                         ///< Largest total, persistent included.
  std::string peak_at;                                ///< Label of the instruction at the peak.
  std::vector<std::pair<BufferKind, Bytes>> at_peak;  ///< By kind, largest first.
  std::vector<Bytes> after;                           ///< One entry per executed instruction.
};
MemoryProfile memory_profile(const Role&);

}  // namespace orrery::core
