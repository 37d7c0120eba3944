// Where each number of an estimate comes from, in words: explain() of costmodel/estimate.h. What a
// sentence says of collectives, passes and buffers is what core/lowering/ lowers the plan to.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "core/error.h"
#include "core/lowering/pipeline_schedule.h"
#include "core/lowering/rank_grid.h"
#include "core/quantity_text.h"
#include "costmodel/collective_cost.h"
#include "costmodel/compute_cost.h"
#include "costmodel/dense_estimator.h"
#include "costmodel/explain_memory.h"

namespace orrery::costmodel {
namespace {

using core::Axis;
using core::Recompute;

// ---- the network ---------------------------------------------------------------------------

/// Whether ranks that differ along `axis` alone share a node.
bool within_nodes(const ExplainContext& c, Axis axis) {
  const core::RankGrid grid(c.dense());
  for (int r = 0; r < grid.ranks(); ++r) {
    const core::Rank first = grid.moved(core::Rank(r), axis, 0);
    if (c.cluster.node_of(r) != c.cluster.node_of(first.value)) return false;
  }
  return true;
}

std::string links_text(const ExplainContext& c, Axis axis) {
  if (within_nodes(c, axis)) {
    return fmt::format("{} and {} within a node", core::text(c.fabric.port),
                       core::text(c.fabric.inside));
  }
  return fmt::format("{} per card and {} between nodes", core::text(c.fabric.card),
                     core::text(c.fabric.across));
}

/// What the collective library adds to the links.
std::string library_text(const FabricCost& fabric) {
  const core::Collectives& library = fabric.collectives;
  if (library.library == core::CollectiveLibrary::AllPairs) {
    if (!library.reduction) return "all pairs at once";
    return fmt::format("all pairs at once, sums at {}", core::text(*library.reduction));
  }
  return fmt::format("{} for each by NCCL{}", core::text(library.base),
                     library.in_switch ? ", sums in the switch where that is faster" : "");
}

// ---- the passes ----------------------------------------------------------------------------

std::string compute_text(const ExplainContext& c) {
  if (!c.is_dense()) {
    return fmt::format("{} slices of one worker's samples: gather, interaction, MLP, gradients",
                       c.estimate.microbatches);
  }
  const bool gpu = c.device.kind == core::DeviceKind::Gpu;
  return fmt::format(
      "{} microbatches through the slowest of {} stages on {}: {} {} peak times an efficiency of "
      "each product's shape (ceiling {:.2f}), or memory at {}, whichever is slower, and {} {}",
      c.estimate.microbatches, c.dense().pipeline, c.device.name,
      core::text(matrix_peak(c.device, c.job.precision)), core::dtype_name(c.job.precision),
      c.device.gemm.ceiling, core::text(c.device.memory_bandwidth * c.device.memory_efficiency),
      core::text(gpu ? c.device.gap : c.device.launch), gpu ? "between kernels" : "per operator");
}

std::string recompute_text(const ExplainContext& c) {
  if (!c.is_dense()) return "nothing is recomputed";
  const core::DensePlan& d = c.dense();
  switch (d.recompute) {
    case Recompute::None:
      return "nothing is recomputed";
    case Recompute::Selective:
      return fmt::format("the {} of {} again before its backward pass",
                         d.attention == core::AttentionKind::Flash
                             ? "attention"
                             : "scores and softmax of the attention",
                         layers_text(c));
    case Recompute::Full:
      return fmt::format("the forward pass of {} again before its backward pass, {}",
                         layers_text(c),
                         d.recompute_whole ? "its last product too" : "but its last product");
  }
  core::check_failed("Recompute", "unknown kind", __FILE__, __LINE__);
}

std::string host_text(const ExplainContext& c) {
  return fmt::format(
      "the host issues a pass's kernels and communication one after the other, {} each (the device "
      "file's `launch`); what that takes longer than the device needs",
      core::text(c.device.launch));
}

std::string interference_text(const ExplainContext& c) {
  if (c.device.beside_communication == 1.0) {
    return "the device file does not say that computing takes longer beside collectives";
  }
  return fmt::format(
      "computing takes {:.4g} times as long while collectives run beside it on the device (the "
      "device file's `beside_communication`)",
      c.device.beside_communication);
}

/// A layer's collectives of the tensor group, forward, backward and in what is recomputed.
std::string tensor_collectives_text(const core::DensePlan& d) {
  const bool again = d.recompute == Recompute::Full;
  if (!d.sequence_parallel) {
    std::string text = "2 all-reduces per layer forward and 2 backward";
    if (again) text += fmt::format(", {} more where it is recomputed", d.recompute_whole ? 2 : 1);
    return text;
  }
  std::string text = "2 all-gathers and 2 reduce-scatters per layer forward, ";
  text += core::splits_backward(d.schedule)
              ? "2 and 2 backward and 4 all-gathers for its weight gradients"
              : "4 and 2 backward (2 of the gathers for weight gradients)";
  if (again) {
    text += fmt::format(", 2 and {} more where it is recomputed", d.recompute_whole ? 2 : 1);
  }
  return text;
}

std::string tensor_text(const ExplainContext& c) {
  if (!c.is_dense() || c.dense().tensor == 1) return "no tensor parallelism";
  return fmt::format("{} over {} devices, {}, {}; only what compute does not hide",
                     tensor_collectives_text(c.dense()), c.dense().tensor,
                     links_text(c, Axis::Tensor), library_text(c.fabric));
}

std::string context_text(const ExplainContext& c) {
  if (!c.is_dense() || c.dense().context == 1) return "no context parallelism";
  const core::DensePlan& d = c.dense();
  std::string what;
  if (d.context_method == core::ContextMethod::Ring) {
    const bool again = d.recompute != Recompute::None;
    what = fmt::format(
        "keys and values take {} hops round {} devices in each layer's attention, {} more "
        "backward{} "
        "and their gradients {}",
        d.context - 1, d.context, d.context - 1,
        again ? fmt::format(", {} more where attention is recomputed", d.context - 1) : "",
        d.context);
  } else {
    const bool again = d.recompute == Recompute::Full;
    what = fmt::format("2 all-to-alls per layer forward and 2 backward{} over {} devices",
                       again ? ", 2 more where it is recomputed," : "", d.context);
  }
  return fmt::format("{}, {}{}; only what compute does not hide", what,
                     links_text(c, Axis::Context),
                     d.context_method == core::ContextMethod::Ring ? std::string()
                                                                   : ", " + library_text(c.fabric));
}

/// In which pieces gradients are reduced and parameters gathered.
std::string pieces_text(const core::DensePlan& d) {
  if (!d.overlap_gradients) return "all at once after the last backward pass";
  if (!d.bucket) return "a layer at a time";
  return fmt::format("layers joined until their gradients have {}", core::message_text(*d.bucket));
}

/// "8 devices", and of experts, whose parameters fewer have, how many of them.
std::string devices_text(int of_others, int of_experts) {
  const std::string text = fmt::format("{} devices", of_others);
  return of_experts == of_others ? text : text + fmt::format(" (of experts {})", of_experts);
}
/// Who share a bucket's optimizer state.
std::string sharers_text(const core::DensePlan& d) {
  return devices_text(d.shared_sharding(), d.sharding);
}

std::string gather_text(const ExplainContext& c) {
  if (!c.shards(3)) return "parameters are not gathered in the passes";
  return fmt::format(
      "all-gather of the parameters over {} before they are used in each forward and each "
      "backward pass, {}; {}, {}; only what compute does not hide",
      sharers_text(c.dense()), pieces_text(c.dense()), links_text(c, Axis::Sharding),
      library_text(c.fabric));
}

// ---- the pipeline --------------------------------------------------------------------------

std::string bubble_text(const ExplainContext& c) {
  if (!c.is_dense() || c.dense().pipeline == 1) return "no pipeline";
  const core::DensePlan& d = c.dense();
  const int p = d.pipeline;
  const int m = c.estimate.microbatches;
  const std::string what = fmt::format("filling and draining {} stages with {} microbatches", p, m);
  if (core::splits_backward(d.schedule)) {
    return fmt::format("{}, as far as {} does not fill it with weight gradients", what,
                       core::schedule_name(d.schedule));
  }
  const int chunks = d.virtual_stages;
  return fmt::format("{}: (p-1)/({}m+p-1) = {} of the pipeline when stages are equal", what,
                     chunks > 1 ? fmt::format("{}", chunks) : "",
                     core::percent((p - 1.0) / (1.0 * chunks * m + p - 1.0)));
}

std::string pipeline_text(const ExplainContext& c) {
  if (!c.is_dense() || c.dense().pipeline == 1) return "no pipeline";
  const core::DensePlan& d = c.dense();
  return fmt::format("activations and gradients{} between {} stages, {}",
                     d.sequence_parallel ? " of each device's rows" : "", d.pipeline,
                     links_text(c, Axis::Pipeline));
}

// ---- the end of the step -------------------------------------------------------------------

/// Whose gradients are summed beside those of the slices' owners: replicas, and ranks that share a
/// sequence. Empty where there are none.
std::string replicas_text(const core::DensePlan& d) {
  const int copies = d.sharding_stage > 0 ? d.data : d.data * d.expert;
  const std::string experts = copies > d.data ? fmt::format(" (of experts {})", d.data) : "";
  if (copies > 1 && d.context > 1) {
    return fmt::format("{} replicas{} and the {} devices that share a sequence", copies, experts,
                       d.context);
  }
  if (copies > 1) return fmt::format("{} replicas{}", copies, experts);
  if (d.context > 1) return fmt::format("the {} devices that share a sequence", d.context);
  return {};
}

std::string gradient_text(const ExplainContext& c) {
  if (!c.is_dense()) return "all-reduce of the dense gradients over the workers";
  const core::DensePlan& d = c.dense();
  std::vector<std::string> parts;
  if (d.sharding_stage > 0) {
    parts.push_back(fmt::format("reduce-scatter over {}{}", sharers_text(d),
                                d.sharding_stage > 1 ? " in each backward pass" : ""));
  }
  if (const std::string replicas = replicas_text(d); !replicas.empty()) {
    parts.push_back(fmt::format("all-reduce{} over {}",
                                d.sharding_stage > 0 ? " of the slices" : "", replicas));
  }
  if (!parts.empty()) parts.back() += ", " + pieces_text(d);
  if (d.sharding_stage > 0 && d.sharding_stage < 3) {
    parts.emplace_back("all-gather of the updated parameters");
  }
  if (d.sequence_parallel) {
    parts.emplace_back("the normalisations' gradients over the tensor group");
  }
  if (c.model.transformer->tied_embeddings && d.pipeline > 1) {
    parts.emplace_back("the tied embedding's between first and last stage");
  }
  parts.emplace_back("gradient norm and loss");
  return fmt::format("{}; only what compute does not hide", fmt::join(parts, ", "));
}

std::string optimizer_text(const ExplainContext& c) {
  if (!c.is_dense()) return "zeroing, norm and update of the dense parameters";
  return fmt::format(
      "zeroing of {}the stage's gradients, norm and update of {}its parameters, at memory speed",
      slice_text(c, 2), slice_text(c, 1));
}

std::string expert_text(const ExplainContext& c) {
  if (!c.is_dense() || c.dense().expert_ways() == 1) return "no expert parallelism";
  const core::DensePlan& d = c.dense();
  const bool again = d.recompute == Recompute::Full;
  return fmt::format(
      "2 all-to-alls per layer forward and 2 backward{} over the {} devices that hold its experts, "
      "each of {:g} times an even share of the rows, {}, {}; only what compute does not hide",
      again ? ", 2 more where it is recomputed," : "", d.expert_ways(), d.expert_capacity,
      links_text(c, Axis::Expert), library_text(c.fabric));
}

std::string server_text(const ExplainContext& c) {
  if (c.is_dense()) return "no parameter server";
  return fmt::format(
      "{} servers answer {} workers in turn: pulled and pushed rows, their summing and the "
      "table's update, as far as training does not hide them",
      c.plan.sparse->servers, c.plan.sparse->workers);
}

std::string time_text(TimeTerm term, const ExplainContext& c) {
  switch (term) {
    case TimeTerm::Compute:
      return compute_text(c);
    case TimeTerm::Recompute:
      return recompute_text(c);
    case TimeTerm::Host:
      return host_text(c);
    case TimeTerm::Interference:
      return interference_text(c);
    case TimeTerm::TensorCommunication:
      return tensor_text(c);
    case TimeTerm::ContextCommunication:
      return context_text(c);
    case TimeTerm::ExpertCommunication:
      return expert_text(c);
    case TimeTerm::ParameterGather:
      return gather_text(c);
    case TimeTerm::PipelineBubble:
      return bubble_text(c);
    case TimeTerm::PipelineCommunication:
      return pipeline_text(c);
    case TimeTerm::GradientCommunication:
      return gradient_text(c);
    case TimeTerm::Optimizer:
      return optimizer_text(c);
    case TimeTerm::ParameterServer:
      return server_text(c);
    case TimeTerm::Load:
      return "reading the first slice and finding its unique keys";
  }
  core::check_failed("TimeTerm", "unknown term", __FILE__, __LINE__);
}

}  // namespace

std::vector<Explanation> explain(const Estimate& estimate, const core::Plan& plan,
                                 const core::Model& model, const core::Cluster& cluster,
                                 const core::Job& job) {
  const ExplainContext context{estimate,
                               plan,
                               model,
                               cluster,
                               job,
                               slowest_device(cluster, job.precision),
                               fabric_cost(cluster)};
  std::vector<Explanation> lines;
  // Terms are differences of larger times: what is left of them by rounding is nothing.
  constexpr double kRounding = 1e-12;
  for (int t = 0; t < kTimeTerms; ++t) {
    const auto term = static_cast<TimeTerm>(t);
    const double seconds = estimate.time[static_cast<std::size_t>(t)].value;
    if (std::abs(seconds) <= kRounding * estimate.step.value) continue;
    lines.push_back({Explanation::Unit::Seconds, std::string(time_term_name(term)), seconds,
                     time_text(term, context)});
  }
  for (int t = 0; t < kMemoryTerms; ++t) {
    const auto term = static_cast<MemoryTerm>(t);
    const double bytes = estimate.memory[static_cast<std::size_t>(t)].value;
    if (bytes == 0.0) continue;
    lines.push_back({Explanation::Unit::Bytes, std::string(memory_term_name(term)), bytes,
                     memory_text(term, context)});
  }
  return lines;
}

}  // namespace orrery::costmodel
