#pragma once
// What the passes of a lowered stage hold, whatever the microbatch: core::memory_profile() followed
// through the passes of one microbatch, with each buffer's bytes as ScaledBytes.

#include <vector>

#include "core/program.h"
#include "costmodel/lowered_stage.h"
#include "costmodel/memory.h"

namespace orrery::costmodel {

struct ScaledMemory {
  MemoryByTerm fixed{}, scaled{};
  MemoryByTerm at(double scale) const { return fixed + scaled * scale; }
};

/// Buffers that stand (costmodel/memory.h).
/// @param bytes  scaled_buffers() of the role.
ScaledMemory standing_memory(const core::Role&, const std::vector<ScaledBytes>& bytes);

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

ScaledPassMemory scaled_pass_memory(const ScaledStage&);

}  // namespace orrery::costmodel
