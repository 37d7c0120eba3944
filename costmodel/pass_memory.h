#pragma once
// What the passes of a lowered stage hold, whatever the microbatch: core::memory_profile() followed
// through the passes of one microbatch, with each buffer's bytes as
//   fixed + scale · scaled,   scale the microbatch in units of the one that was lowered.

#include <vector>

#include "core/program.h"
#include "costmodel/memory.h"

namespace orrery::costmodel {

/// Bytes that grow with the microbatch, and bytes that do not.
struct ScaledBytes {
  core::Bytes fixed, scaled;
  core::Bytes at(double scale) const { return fixed + scaled * scale; }
  auto operator<=>(const ScaledBytes&) const = default;
};

/// From the bytes of the lowered microbatch and those of twice it.
ScaledBytes scaled_bytes(core::Bytes of_one, core::Bytes of_two);

struct ScaledMemory {
  MemoryByTerm fixed{}, scaled{};
  MemoryByTerm at(double scale) const { return fixed + scaled * scale; }
};

/// Buffers that stand (costmodel/memory.h).
/// @param one, two  A stage's with some microbatch and with twice it.
ScaledMemory standing_memory(const core::Role& one, const core::Role& two);

/// PassBytes of any microbatch.
struct ScaledPassBytes {
  /// The moments that are fullest for some microbatch, in order.
  std::vector<ScaledMemory> moments;
  ScaledMemory received, loaded, sent;
  PassBytes at(double scale) const;
};

/// PassMemory of any microbatch.
struct ScaledPassMemory {
  ScaledPassBytes forward, backward, weight_grad;
  ScaledMemory saved, kept;
  MemoryByTerm standing{};  ///< Of what grows with the microbatch; the rest is the step's.
  PassMemory at(double scale) const;
};

/// @param one, two  A stage lowered by itself with some microbatch and with twice it.
ScaledPassMemory scaled_pass_memory(const core::Role& one, const core::Role& two);

}  // namespace orrery::costmodel
