#pragma once
// How long a plan's step takes and what it needs, by term, or why it cannot run.

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/cluster.h"
#include "core/job.h"
#include "core/model.h"
#include "core/plan.h"
#include "core/units.h"
#include "costmodel/memory.h"

namespace orrery::costmodel {

/// A plan that cannot run: a value, since a search meets thousands.
struct Infeasible {
  enum class Reason { Invalid, Memory };
  Reason reason = Reason::Invalid;
  std::string why;  ///< One sentence.
  /// Reason::Memory: of the device that lacks most.
  std::optional<core::Bytes> needed, available;
};

/// Parts of a step's time; they add up to it.
enum class TimeTerm {
  Compute,    ///< Forward and backward passes of the slowest stage.
  Recompute,  ///< Of them, activations computed again.
  Host,       ///< What the host takes to issue kernels beyond what the device needs.
  /// What computing takes longer because collectives run beside it (core/interference.h).
  Interference,
  // Exposed: a pass's compute stream waits for
  TensorCommunication,    ///< the tensor group,
  ContextCommunication,   ///< the ranks that share its sequences,
  ExpertCommunication,    ///< the ranks that hold the experts of its rows,
  ParameterGather,        ///< parameters gathered just before they are used (ZeRO stage 3).
  PipelineBubble,         ///< Waiting for other stages, were messages free.
  PipelineCommunication,  ///< What messages between stages add.
  GradientCommunication,  ///< Exposed: reduction of gradients within the passes and after them,
                          ///< gathering of updated parameters, scalars.
  Optimizer,              ///< Zeroing gradients, their norm, the update.
  ParameterServer,        ///< Exposed: pulls, pushes and the servers' updates.
  Load                    ///< Exposed: reading samples, finding unique keys.
};
inline constexpr int kTimeTerms = 14;
std::string_view time_term_name(TimeTerm);
using TimeByTerm = std::array<core::Seconds, kTimeTerms>;

struct Estimate {
  core::Seconds step;
  TimeByTerm time{};
  MemoryByTerm memory{};         ///< Of the device that needs most.
  core::Bytes memory_available;  ///< Device::memory (or Cluster's share of host memory).
  int fullest_stage = 0;         ///< Pipeline stage of that device.
  int devices = 0;
  int microbatches = 1;
  double samples_per_second = 0.0;
  /// Transformers: samples_per_second · sequence.
  std::optional<double> tokens_per_second;
  /// Model flops (6·N + 12·layers·heads·head_dim·sequence per token, nothing recomputed) / peak.
  std::optional<double> mfu;
  double bubble_share = 0.0;         ///< Pipeline bubble / step.
  double communication_share = 0.0;  ///< Exposed communication / step.
  /// Samples (tokens) per second of one device that only computes: no communication, no bubble.
  double speed_of_one = 0.0;
  double scaling_efficiency = 0.0;  ///< speed / (speed_of_one · devices).
  std::optional<double> dollars_per_step;
  std::optional<double> joules_per_step;
};

using Outcome = std::variant<Estimate, Infeasible>;

/// 6·N + 12·layers·heads·head_dim·sequence, N the parameters that enter matrix products (embeddings
/// that are only looked up do not). Counts the whole causal mask, as published MFU does.
/// @source Chowdhery et al., PaLM, arXiv 2204.02311, appendix B
double model_flops_per_token(const core::Transformer&, int sequence);

/// Cost does not depend on the number of microbatches.
/// Dense plans are timed as if no two kinds of communication shared a link; the simulator finds
/// out.
Outcome estimate(const core::Plan&, const core::Model&, const core::Cluster&, const core::Job&);

/// One term for `orrery plan --explain`.
struct Explanation {
  enum class Unit { Seconds, Bytes };
  Unit unit = Unit::Seconds;
  std::string term;
  double value = 0.0;
  std::string text;  ///< Where it comes from.
};
/// All terms that are not zero but for rounding, times first.
std::vector<Explanation> explain(const Estimate&, const core::Plan&, const core::Model&,
                                 const core::Cluster&, const core::Job&);

}  // namespace orrery::costmodel
