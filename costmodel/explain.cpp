// Where each number of an estimate comes from, in words: explain() of costmodel/estimate.h.

#include <fmt/format.h>

#include "core/error.h"
#include "costmodel/collective_cost.h"
#include "costmodel/compute_cost.h"
#include "costmodel/dense_estimator.h"

namespace orrery::costmodel {
namespace {

/// What the texts are filled with.
struct Context {
  const Estimate& estimate;
  const core::Plan& plan;
  const core::Model& model;
  const core::Job& job;
  core::Device device;
  FabricCost fabric;

  const core::DensePlan& dense() const { return *plan.dense; }
  bool is_dense() const { return plan.dense.has_value(); }
};

std::string compute_text(const Context& c) {
  if (!c.is_dense()) {
    return fmt::format("{} slices of one worker's samples: gather, interaction, MLP, gradients",
                       c.estimate.microbatches);
  }
  return fmt::format(
      "{} microbatches through the slowest of {} stages on {}: {:.0f} TFLOP/s {} peak times an "
      "efficiency of each product's shape (ceiling {:.2f}), or memory at {:.0f} GB/s, whichever is "
      "slower, and {:.1f} us per operator",
      c.estimate.microbatches, c.dense().pipeline, c.device.name,
      matrix_peak(c.device, c.job.precision).value / 1e12, core::dtype_name(c.job.precision),
      c.device.gemm.ceiling, (c.device.memory_bandwidth * c.device.memory_efficiency).value / 1e9,
      c.device.launch.value * 1e6);
}

std::string recompute_text(const Context& c) {
  if (!c.is_dense() || c.dense().recompute == core::Recompute::None) return "nothing is recomputed";
  return "each layer's forward pass again before its backward pass, but its last product";
}

/// What the collective library adds to the links.
std::string library_text(const FabricCost& fabric) {
  const core::Collectives& library = fabric.collectives;
  if (library.library == core::CollectiveLibrary::AllPairs) {
    if (!library.reduction) return "all pairs at once";
    return fmt::format("all pairs at once, sums at {:.1f} GB/s", library.reduction->value / 1e9);
  }
  return fmt::format("{:.1f} us for each by NCCL{}", library.base.value * 1e6,
                     library.in_switch ? ", sums in the switch where that is faster" : "");
}

std::string host_text(const Context& c) {
  return fmt::format(
      "the host issues a pass's kernels one after the other, {:.1f} us each (the device file's "
      "`launch`); what that takes longer than the device needs",
      c.device.launch.value * 1e6);
}

std::string tensor_text(const Context& c) {
  if (!c.is_dense() || c.dense().tensor == 1) return "no tensor parallelism";
  return fmt::format(
      "2 all-reduces per layer forward and 2 backward over {} devices, {:.0f} GB/s and {:.1f} us "
      "within a node, {}; only what no weight gradient hides",
      c.dense().tensor, c.fabric.port.value / 1e9, c.fabric.inside.value * 1e6,
      library_text(c.fabric));
}

std::string context_text(const Context& c) {
  if (!c.is_dense() || c.dense().context == 1) return "no context parallelism";
  const core::DensePlan& d = c.dense();
  if (d.context_method == core::ContextMethod::Ring) {
    return fmt::format(
        "keys and values go round {} devices in each layer's attention, and once more backward, "
        "where their gradients follow them; only what attention does not hide",
        d.context);
  }
  return fmt::format("2 all-to-alls per layer forward and 2 backward over {} devices, {}",
                     d.context, library_text(c.fabric));
}

std::string gather_text(const Context& c) {
  if (!c.is_dense() || c.dense().sharding_stage < 3) return "parameters are not gathered";
  return fmt::format(
      "parameters gathered over {} devices before each forward and each backward pass of a layer; "
      "only what compute does not hide",
      c.dense().sharding);
}

std::string bubble_text(const Context& c) {
  if (!c.is_dense() || c.dense().pipeline == 1) return "no pipeline";
  const int p = c.dense().pipeline;
  const int m = c.estimate.microbatches;
  return fmt::format(
      "filling and draining {} stages with {} microbatches: (p-1)/(m+p-1) = {:.1f}% of the "
      "pipeline when stages are equal",
      p, m, 100.0 * (p - 1) / (m + p - 1));
}

std::string pipeline_text(const Context& c) {
  if (!c.is_dense() || c.dense().pipeline == 1) return "no pipeline";
  return fmt::format(
      "activations and gradients between {} stages; across nodes {:.0f} GB/s per card",
      c.dense().pipeline, c.fabric.card.value / 1e9);
}

std::string gradient_text(const Context& c) {
  if (!c.is_dense()) return "all-reduce of the dense gradients over the workers";
  const core::DensePlan& d = c.dense();
  if (d.data_ways() == 1) return "no data parallelism; the scalars of the gradient norm and loss";
  std::string text =
      d.sharding > 1
          ? fmt::format("reduce-scatter over {} and all-gather of the parameters", d.sharding)
          : "";
  if (d.data > 1) {
    text += fmt::format("{}all-reduce over {} replicas", text.empty() ? "" : ", ", d.data);
  }
  return text + ", a layer at a time; only what the last backward pass does not hide";
}

std::string optimizer_text(const Context& c) {
  if (!c.is_dense()) return "zeroing, norm and update of the dense parameters";
  return fmt::format("zeroing, norm and update of 1/{} of the stage's parameters, at memory speed",
                     c.dense().sharding);
}

std::string server_text(const Context& c) {
  if (c.is_dense()) return "no parameter server";
  return fmt::format(
      "{} servers answer {} workers in turn: pulled and pushed rows, their summing and the "
      "table's update, as far as training does not hide them",
      c.plan.sparse->servers, c.plan.sparse->workers);
}

std::string time_text(TimeTerm term, const Context& c) {
  switch (term) {
    case TimeTerm::Compute:
      return compute_text(c);
    case TimeTerm::Recompute:
      return recompute_text(c);
    case TimeTerm::Host:
      return host_text(c);
    case TimeTerm::TensorCommunication:
      return tensor_text(c);
    case TimeTerm::ContextCommunication:
      return context_text(c);
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

std::string memory_text(MemoryTerm term, const Context& c) {
  switch (term) {
    case MemoryTerm::Weights:
      return c.is_dense() ? fmt::format("{} bytes per parameter of stage {}, 1/{} of each layer",
                                        core::dtype_bytes(c.job.precision),
                                        c.estimate.fullest_stage, c.dense().tensor)
                          : "a server's rows, or a worker's dense parameters";
    case MemoryTerm::Gradients:
      return "4 bytes per parameter: accumulated in float32";
    case MemoryTerm::Optimizer:
      return c.is_dense()
                 ? fmt::format(
                       "float32 master copy (of half precision) and moments, over {} devices",
                       c.dense().sharding)
                 : "the accumulator of each row";
    case MemoryTerm::Activations:
      return c.is_dense() ? fmt::format("of the microbatches in flight, {} recompute",
                                        core::recompute_name(c.dense().recompute))
                          : "one slice's activations";
    case MemoryTerm::Logits:
      return "of one microbatch, on the last stage";
    case MemoryTerm::Workspace:
      return "live within one pass";
    case MemoryTerm::Communication:
      return "what others sent";
    case MemoryTerm::Reserved:
      return "context, libraries and fragmentation (the device file's `reserved`)";
  }
  core::check_failed("MemoryTerm", "unknown term", __FILE__, __LINE__);
}

}  // namespace

std::vector<Explanation> explain(const Estimate& estimate, const core::Plan& plan,
                                 const core::Model& model, const core::Cluster& cluster,
                                 const core::Job& job) {
  const Context context{
      estimate, plan, model, job, slowest_device(cluster, job.precision), fabric_cost(cluster)};
  std::vector<Explanation> lines;
  for (int t = 0; t < kTimeTerms; ++t) {
    const auto term = static_cast<TimeTerm>(t);
    const double seconds = estimate.time[static_cast<std::size_t>(t)].value;
    if (seconds == 0.0) continue;
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
