#pragma once
// Memory of one device by term.
//
//   persistent   weights e·N, gradients 4·N, optimizer state (4 master where e < 4, + 4 per moment)
//                · N / sharding, e the bytes of the job's precision
//   saved S      what one microbatch keeps between its forward and its backward pass
//   standing     buffers that collectives gather into, step after step
//   peak         persistent + standing + max over passes ( others in flight · S + the pass's own peak
//                + what the pass before it sent + what is fetched for the pass after it )
//
// At most n = min(p − s, m) microbatches are in flight in stage s of p (1F1B), m (GPipe). Beyond
// three each one more only adds its S, so no more than three are looked at. S and the peaks are
// affine in the stage's layers and read off the lowered blocks (costmodel/stage_profile.h), so that
// they equal core::memory_profile() of the lowered role; a test holds them equal. Convention of
// mixed precision (2 + 4 + 12 bytes per parameter, gradients accumulated in float32): Megatron-LM;
// the 12 bytes divided by the ZeRO-1 group: Rajbhandari et al., SC 2020.

#include <array>
#include <string_view>

#include "core/job.h"
#include "core/plan.h"
#include "core/program.h"
#include "core/units.h"

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
  MemoryByTerm peak;     ///< Its microbatch's own buffers included.
  MemoryByTerm fetched;  ///< Of it, what arrives while the pass before computes.
  MemoryByTerm sent;     ///< What waits for its receiver while the pass after computes.
};

struct PassMemory {
  PassBytes forward, backward;
  MemoryByTerm saved;     ///< S: what one microbatch keeps between the two.
  MemoryByTerm standing;  ///< Buffers of communication that live throughout the step.
};

/// Weights, gradients, optimizer state and the step's scalars of `elements` parameters on one rank.
MemoryByTerm persistent_memory(std::int64_t elements, int sharding_ways, const core::Job&);

/// Standing buffers and the peak of the passes of one stage, by term at the instruction where the total is largest.
MemoryByTerm peak_of_passes(const PassMemory&, core::PipelineSchedule, int stages, int stage,
                            int microbatches);

}  // namespace orrery::costmodel
