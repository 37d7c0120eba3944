#include "core/plan.h"

#include <fmt/format.h>

#include <numeric>

#include "core/error.h"

namespace orrery::core {

namespace {

std::string describe_dense(const DensePlan& d) {
  std::string text = fmt::format("dp{} tp{} pp{}", d.data, d.tensor, d.pipeline);
  text += fmt::format(" sh{}", d.sharding);
  // Stage 1 goes without saying, but where only expert ranks share.
  if (d.sharding_stage > (d.sharding > 1 ? 1 : 0)) text += fmt::format("z{}", d.sharding_stage);
  if (d.context > 1) {
    text += fmt::format(" cp{}", d.context);
    if (d.context_method == ContextMethod::AllToAll) text += "a2a";
  }
  if (d.expert > 1) text += fmt::format(" ep{}", d.expert);
  if (d.expert_tensor > 1) text += fmt::format(" etp{}", d.expert_tensor);
  if (d.sequence_parallel) text += " sp";
  text += fmt::format(" mb{} {}", d.microbatch, schedule_name(d.schedule));
  if (d.virtual_stages > 1) text += fmt::format(" v{}", d.virtual_stages);
  text += fmt::format(" {}", recompute_name(d.recompute));
  if (d.recompute_layers) text += fmt::format("{}", *d.recompute_layers);
  if (d.recompute_whole) text += " whole";
  if (d.attention != AttentionKind::Flash) {
    text += fmt::format(" {}", attention_kind_name(d.attention));
  }
  const int layers = std::accumulate(d.layers_per_stage.begin(), d.layers_per_stage.end(), 0);
  const auto parts = static_cast<int>(d.layers_per_stage.size());
  if (parts > 1 && d.layers_per_stage != even_layers(layers, parts)) text += " uneven";
  if (d.pipeline > 1 && d.axis_order.back() == Axis::Pipeline && d.data_ways() > 1) {
    text += " pp-outermost";
  }
  return text;
}

std::string describe_sparse(const SparsePlan& s) {
  std::string text = fmt::format("workers{} servers{}", s.workers, s.servers);
  if (s.colocated) text += " colocated";
  if (s.slices > 1) text += fmt::format(" slices{}", s.slices);
  return text + fmt::format(" {}", update_mode_name(s.mode));
}

}  // namespace

std::string_view axis_name(Axis axis) {
  switch (axis) {
    case Axis::Tensor:
      return "tensor";
    case Axis::Context:
      return "context";
    case Axis::Sharding:
      return "sharding";
    case Axis::Expert:
      return "expert";
    case Axis::Pipeline:
      return "pipeline";
    case Axis::Data:
      return "data";
  }
  ORRERY_CHECK(false, "unknown Axis");
}

std::string_view schedule_name(PipelineSchedule schedule) {
  switch (schedule) {
    case PipelineSchedule::GPipe:
      return "gpipe";
    case PipelineSchedule::OneFOneB:
      return "1f1b";
    case PipelineSchedule::Interleaved:
      return "interleaved";
    case PipelineSchedule::ZeroBubbleH1:
      return "zb-h1";
    case PipelineSchedule::ZeroBubble1p:
      return "zb-1p";
    case PipelineSchedule::ZeroBubble2p:
      return "zb-2p";
  }
  ORRERY_CHECK(false, "unknown PipelineSchedule");
}

std::string_view recompute_name(Recompute recompute) {
  switch (recompute) {
    case Recompute::None:
      return "none";
    case Recompute::Selective:
      return "selective";
    case Recompute::Full:
      return "full";
  }
  ORRERY_CHECK(false, "unknown Recompute");
}

std::string_view attention_kind_name(AttentionKind kind) {
  switch (kind) {
    case AttentionKind::Flash:
      return "flash";
    case AttentionKind::Plain:
      return "plain";
  }
  ORRERY_CHECK(false, "unknown AttentionKind");
}

std::string_view context_method_name(ContextMethod method) {
  switch (method) {
    case ContextMethod::Ring:
      return "ring";
    case ContextMethod::AllToAll:
      return "all-to-all";
  }
  ORRERY_CHECK(false, "unknown ContextMethod");
}

std::string_view update_mode_name(UpdateMode mode) {
  switch (mode) {
    case UpdateMode::Synchronous:
      return "synchronous";
    case UpdateMode::BoundedStaleness:
      return "bounded-staleness";
    case UpdateMode::Asynchronous:
      return "asynchronous";
    case UpdateMode::Geo:
      return "geo";
  }
  ORRERY_CHECK(false, "unknown UpdateMode");
}

int Plan::devices() const {
  if (dense) return dense->devices();
  return sparse ? sparse->devices() : 0;
}

int microbatches(const DensePlan& plan, int global_batch) {
  return global_batch / (plan.data_ways() * plan.microbatch);
}

std::vector<int> even_layers(int layers, int parts) {
  ORRERY_CHECK(parts >= 1 && layers >= 0, "layers are dealt to at least one part");
  std::vector<int> counts(static_cast<std::size_t>(parts), layers / parts);
  for (int i = 0; i < layers % parts; ++i) ++counts[static_cast<std::size_t>(i)];
  return counts;
}

std::string describe(const Plan& plan) {
  std::string text = plan.dense ? describe_dense(*plan.dense) : "";
  if (plan.sparse) text += (text.empty() ? "" : " + ") + describe_sparse(*plan.sparse);
  return text;
}

}  // namespace orrery::core
