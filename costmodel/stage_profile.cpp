#include "costmodel/stage_profile.h"

#include <optional>
#include <utility>
#include <vector>

#include "core/error.h"

namespace orrery::costmodel {
namespace {

using core::Seconds;

/// Through `fewer` layers and one more.
AffineSeconds affine(int fewer, Seconds of_fewer, Seconds of_one_more) {
  const Seconds per_layer = of_one_more - of_fewer;
  return {of_fewer - per_layer * fewer, per_layer};
}

PassTime pass_time(int fewer, const PassTiming& a, const PassTiming& b) {
  const auto waits = [&](core::SpanKind kind) {
    const auto k = static_cast<std::size_t>(kind);
    return affine(fewer, a.waits[k], b.waits[k]);
  };
  return {.makespan = {.device = affine(fewer, a.makespan, b.makespan),
                       .host = affine(fewer, a.issued, b.issued)},
          .compute = affine(fewer, a.compute, b.compute),
          .recompute = affine(fewer, a.recompute, b.recompute),
          .waits = {.tensor = waits(core::SpanKind::TensorCommunication),
                    .context = waits(core::SpanKind::ContextCommunication),
                    .gather = waits(core::SpanKind::ParameterGather),
                    .data = waits(core::SpanKind::DataCommunication)}};
}

GradientTimes gradient_times(int fewer, const PassTiming& a, const PassTiming& b) {
  const auto before_end = [](const PassTiming& time, const std::optional<Seconds>& complete) {
    return complete ? time.makespan - *complete : Seconds(0);
  };
  const Seconds first = before_end(a, a.first_layer);
  return {.embedding = before_end(a, a.embedding),
          .first_layer = first,
          .per_layer = before_end(a, a.second_layer) - first,
          .head = affine(fewer, before_end(a, a.head), before_end(b, b.head))};
}

/// Applies `combine` to each part of two memories.
template <class Combine>
PassBytes combined(const PassBytes& a, const PassBytes& b, Combine combine) {
  return {.peak = combine(a.peak, b.peak),
          .received = combine(a.received, b.received),
          .loaded = combine(a.loaded, b.loaded),
          .sent = combine(a.sent, b.sent)};
}
template <class Combine>
PassMemory combined(const PassMemory& a, const PassMemory& b, Combine combine) {
  return {.forward = combined(a.forward, b.forward, combine),
          .backward = combined(a.backward, b.backward, combine),
          .weight_grad = combined(a.weight_grad, b.weight_grad, combine),
          .saved = combine(a.saved, b.saved),
          .kept = combine(a.kept, b.kept),
          .standing = combine(a.standing, b.standing)};
}

}  // namespace

PassMemory StageProfile::memory(int layers) const {
  const int beyond = layers - base;
  if (beyond == 1) return memory_of_one;
  return combined(memory_of_two, memory_per_layer,
                  [beyond](const MemoryByTerm& two, const MemoryByTerm& each) {
                    return two + each * (beyond - 2);
                  });
}

Seconds GradientTimes::before_end(StagePart part, int layers) const {
  switch (part.kind) {
    case StagePart::Kind::Embedding:
      return embedding;
    case StagePart::Kind::Layer:
      return first_layer + per_layer * part.layer;
    case StagePart::Kind::Head:
      return head.at(layers);
  }
  core::check_failed("StagePart", "unknown part", __FILE__, __LINE__);
}

Seconds StageProfile::passes(int layers) const {
  return forward.makespan.at(layers) + backward.makespan.at(layers) +
         weight_grad.makespan.at(layers);
}

Seconds StageProfile::device_passes(int layers) const {
  return forward.makespan.device.at(layers) + backward.makespan.device.at(layers) +
         weight_grad.makespan.device.at(layers);
}

Seconds StageProfile::waits(AffineSeconds Waits::*kind, int layers) const {
  return (forward.waits.*kind).at(layers) + (backward.waits.*kind).at(layers) +
         (weight_grad.waits.*kind).at(layers);
}

core::DensePlan passes_alone(const core::DensePlan& plan) {
  core::DensePlan alone = plan;
  alone.layers_per_stage.clear();
  alone.pipeline = alone.virtual_stages = 1;
  alone.microbatch = 1;
  alone.schedule = order_free(plan.schedule);
  alone.pass_times.reset();
  // Up to stage 1, sharding and data parallelism are the end of the step's business.
  if (alone.sharding_stage <= 1) {
    alone.data = alone.sharding = 1;
    alone.sharding_stage = 0;
  }
  alone.bucket.reset();
  alone.overlap_gradients = true;
  return alone;
}

core::DensePlan passes_structure_alone(const core::DensePlan& plan) {
  core::DensePlan alone = passes_alone(plan);
  alone.tensor = fewest_ways(plan.tensor);
  alone.sharding = fewest_ways(alone.sharding);
  return alone;
}

PassStructure::PassStructure(const core::DensePlan& plan, StageEnds ends, const core::Model& model,
                             const core::Job& job)
    : base(plan.recompute_layers.value_or(0)),
      one(lowered_stage(plan, ends, base + 1, model, job)),
      two(lowered_stage(plan, ends, base + 2, model, job)),
      three(lowered_stage(plan, ends, base + 3, model, job)) {}

StagePasses::StagePasses(const core::DensePlan& plan, StageEnds ends,
                         const PassStructure& structure, const core::Model& model,
                         const core::Job& job, const core::Device& device)
    : ends_(ends),
      base_(structure.base),
      outliner_(device, job.precision),
      one_(lowered(base_ + 1, structure.one, plan, model, job)),
      two_(lowered(base_ + 2, structure.two, plan, model, job)),
      three_(lowered(base_ + 3, structure.three, plan, model, job)) {}

StagePasses::Layers StagePasses::lowered(int layers, const core::Role& like,
                                         const core::DensePlan& plan, const core::Model& model,
                                         const core::Job& job) {
  const ScaledStage stage = scaled_stage(plan, ends_, layers, model, job, like);
  microbatch_ = stage.microbatch;
  return {outliner_.outline(stage), scaled_pass_memory(stage)};
}

StageProfile StagePasses::profile(int microbatch, const PlanGroups& groups,
                                  const FabricCost& fabric, TensorBlocking blocking) const {
  const int scale = microbatch / microbatch_;
  const std::vector<Seconds> durations = outliner_.durations(scale, groups, fabric);
  const auto times = [&](const StageOutline& outline) {
    std::vector<PassTiming> of_passes;
    for (const PassOutline& pass : outline.passes) {
      of_passes.push_back(timing_of(pass, durations, blocking));
    }
    return of_passes;
  };
  const std::vector<PassTiming> of_two = times(two_.outline);
  const std::vector<PassTiming> of_three = times(three_.outline);
  const int fewer = base_ + 2;
  StageProfile profile;
  profile.base = base_;
  profile.forward = pass_time(fewer, of_two[0], of_three[0]);
  profile.backward = pass_time(fewer, of_two[1], of_three[1]);
  if (of_two.size() > 2) profile.weight_grad = pass_time(fewer, of_two[2], of_three[2]);
  profile.gradients = gradient_times(fewer, of_two.back(), of_three.back());
  if (!ends_.last) profile.ahead = of_two[1].ahead;
  profile.message = two_.outline.message.at(scale);
  profile.memory_of_one = one_.memory.at(scale);
  profile.memory_of_two = two_.memory.at(scale);
  profile.memory_per_layer =
      combined(three_.memory.at(scale), profile.memory_of_two,
               [](const MemoryByTerm& a, const MemoryByTerm& b) { return a + b * -1.0; });
  return profile;
}

}  // namespace orrery::costmodel
