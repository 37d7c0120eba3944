#include "costmodel/explain_memory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "core/error.h"

namespace orrery::costmodel {

using core::Recompute;

std::string layers_text(const ExplainContext& c) {
  const auto& layers = c.dense().recompute_layers;
  return layers ? fmt::format("each of a stage's first {} layers", *layers) : "each layer";
}

std::string slice_text(const ExplainContext& c, int stage) {
  if (!c.shards(stage)) return "";
  const core::DensePlan& d = c.dense();
  return d.expert == 1 ? fmt::format("1/{} of ", d.sharding)
                       : fmt::format("1/{} (of experts 1/{}) of ", d.shared_sharding(), d.sharding);
}

namespace {

std::string optimizer_memory_text(const ExplainContext& c) {
  if (!c.is_dense()) return "the accumulator of each row";
  std::vector<std::string> parts;
  if (core::dtype_bytes(c.job.precision) < core::dtype_bytes(core::DType::Float32)) {
    parts.emplace_back("a float32 copy");
  }
  switch (c.job.optimizer.kind) {
    case core::OptimizerKind::AdamW:
    case core::OptimizerKind::Adam:
      parts.emplace_back("two float32 moments");
      break;
    case core::OptimizerKind::AdaGrad:
      parts.emplace_back("float32 sums of squares");
      break;
    case core::OptimizerKind::Sgd:
      break;
  }
  return fmt::format("{} of {}the parameters", fmt::join(parts, " and "), slice_text(c, 1));
}

std::string activations_text(const ExplainContext& c) {
  if (!c.is_dense()) return "one slice's activations";
  const std::string in_flight = "of the microbatches in flight, ";
  switch (c.dense().recompute) {
    case Recompute::None:
      return in_flight + "all that backward reads";
    case Recompute::Selective:
      return in_flight + "without the inside of the attention of " + layers_text(c);
    case Recompute::Full:
      return in_flight + "the input alone of " + layers_text(c);
  }
  core::check_failed("Recompute", "unknown kind", __FILE__, __LINE__);
}

std::string communication_memory_text(const ExplainContext& c) {
  if (!c.is_dense()) return "what others sent";
  const core::DensePlan& d = c.dense();
  std::vector<std::string> parts;
  if (d.sequence_parallel) parts.emplace_back("gathered rows");
  if (d.context > 1 && d.context_method == core::ContextMethod::Ring) {
    parts.emplace_back("keys and values on their way round");
  }
  if (d.sharding_stage >= 2)
    parts.emplace_back("full gradients of two buckets, of embedding and head");
  if (d.sharding_stage == 3) parts.emplace_back("gathered parameters likewise");
  if (d.tensor > 1) parts.emplace_back("statistics of the loss");
  return parts.empty() ? "what others sent" : fmt::format("{}", fmt::join(parts, ", "));
}

std::string weights_text(const ExplainContext& c) {
  if (!c.is_dense()) return "a server's rows, or a worker's dense parameters";
  const core::DensePlan& d = c.dense();
  return fmt::format("{} bytes per parameter of {}stage {}, 1/{} of each layer{}",
                     core::dtype_bytes(c.job.precision), slice_text(c, 3), c.estimate.fullest_stage,
                     d.tensor,
                     d.expert > 1 ? fmt::format(", of its experts 1/{}", d.expert * d.tensor) : "");
}

}  // namespace

std::string memory_text(MemoryTerm term, const ExplainContext& c) {
  switch (term) {
    case MemoryTerm::Weights:
      return weights_text(c);
    case MemoryTerm::Gradients:
      return fmt::format("4 bytes per parameter{}: accumulated in float32",
                         c.shards(2) ? " of " + slice_text(c, 2) + "the stage" : "");
    case MemoryTerm::Optimizer:
      return optimizer_memory_text(c);
    case MemoryTerm::Activations:
      return activations_text(c);
    case MemoryTerm::Logits:
      return "of one microbatch, on the last stage";
    case MemoryTerm::Workspace:
      return "live within one pass";
    case MemoryTerm::Communication:
      return communication_memory_text(c);
    case MemoryTerm::Reserved:
      return "context, libraries and fragmentation (the device file's `reserved`)";
  }
  core::check_failed("MemoryTerm", "unknown term", __FILE__, __LINE__);
}

}  // namespace orrery::costmodel
