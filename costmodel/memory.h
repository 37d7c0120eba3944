#pragma once
// Memory of one device by term.
//
//   persistent   weights e·N, gradients 4·N, optimizer state (4 master where e < 4, + 4 per moment)
//                · N / sharding, e the bytes of the job's precision
//   saved S      what one microbatch keeps in a chunk of layers between its forward and its backward
//                pass; kept K: between the two halves of a split backward pass
//   standing     buffers that collectives gather into, step after step
//   peak         persistent + standing + max over moments ( others in flight · S + others kept · K + the pass's
//                own peak + what was sent and may not have arrived + what may have been fetched )
//
// How many are in flight when follows from the schedule (costmodel/pipeline_occupancy.h): at most
// min(p − s, m) in stage s of p for 1F1B, m for GPipe. S, K and the peaks are affine in the stage's
// layers and read off the lowered blocks (costmodel/stage_profile.h), so that they equal
// core::memory_profile() of the lowered role; a test holds them equal. Convention of
// mixed precision (2 + 4 + 12 bytes per parameter, gradients accumulated in float32): Megatron-LM;
// the 12 bytes divided by the ZeRO-1 group: Rajbhandari et al., SC 2020.

#include <array>
#include <string_view>
#include <vector>

#include "core/job.h"
#include "core/plan.h"
#include "core/program.h"
#include "core/units.h"
#include "costmodel/pipeline_occupancy.h"

namespace orrery::costmodel {

enum class MemoryTerm {
  Weights,
  Gradients,
  Optimizer,
  Activations,  ///< Saved for backward, and the inputs.
  Logits,
  Workspace,      ///< Live within one pass only.
  Communication,  ///< Buffers that hold only what others sent.
  Reserved        ///< By the framework: Device::reserved.
};
inline constexpr int kMemoryTerms = 8;
std::string_view memory_term_name(MemoryTerm);
MemoryTerm memory_term(const core::Buffer&);

using MemoryByTerm = std::array<core::Bytes, kMemoryTerms>;
core::Bytes total(const MemoryByTerm&);
MemoryByTerm operator+(const MemoryByTerm&, const MemoryByTerm&);
MemoryByTerm operator*(const MemoryByTerm&, double);

/// What one pass of a stage holds beside the persistent buffers.
struct PassBytes {
  MemoryByTerm peak{};      ///< Its microbatch's own buffers included.
  MemoryByTerm received{};  ///< Of it, what may arrive while passes before it compute.
  MemoryByTerm loaded{};    ///< Likewise, from the data.
  MemoryByTerm sent{};      ///< What waits for its receiver while passes after it compute.
};

/// Of one chunk.
struct PassMemory {
  PassBytes forward, backward, weight_grad;
  MemoryByTerm saved{};  ///< S: what one microbatch keeps from forward to backward.
  MemoryByTerm kept{};   ///< K: what it keeps from there to weight_grad.
  MemoryByTerm
      standing{};  ///< Buffers of communication that live throughout the step, of the stage.
};

/// Whether a buffer of communication lives throughout the step. Its size may be a microbatch's.
bool stands(const core::Buffer&);

/// Buffers of a role that live throughout, but those that stand: weights, gradients, optimizer state,
/// the step's scalars.
MemoryByTerm run_memory(const core::Role&);

/// Standing buffers and the peak of the passes of one stage, by term at the instruction where the total is largest.
/// @param chunks  By kind of chunk of the stage.
/// @param moments  fullest_moments() of the stage.
MemoryByTerm peak_of_passes(const std::vector<const PassMemory*>& chunks,
                            const std::vector<PassMoment>& moments);

}  // namespace orrery::costmodel
