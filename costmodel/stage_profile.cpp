#include "costmodel/stage_profile.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/error.h"

namespace orrery::costmodel {
namespace {

using core::Seconds;

/// The passes of one microbatch, by layers beyond the base, from one.
struct Timings {
  int base;
  std::vector<std::vector<PassTiming>> by_layers;

  /// What `value` says of the passes.
  template <class Value>
  AffineSeconds of_all(Value value) const {
    AffineSeconds result{.base = base, .few = static_cast<int>(by_layers.size()), .of_few = {}};
    for (std::size_t i = 0; i < by_layers.size(); ++i) result.of_few[i] = value(by_layers[i]);
    return result;
  }
  template <class Value>
  AffineSeconds of(std::size_t pass, Value value) const {
    return of_all([&](const std::vector<PassTiming>& passes) { return value(passes[pass]); });
  }
};

PassTime pass_time(const Timings& timings, std::size_t pass) {
  const auto of = [&](Seconds PassTiming::*part) {
    return timings.of(pass, [=](const PassTiming& timing) { return timing.*part; });
  };
  const auto waits = [&](core::SpanKind kind) {
    return timings.of(pass, [=](const PassTiming& timing) {
      return timing.waits[static_cast<std::size_t>(kind)];
    });
  };
  return {.makespan = {.device = of(&PassTiming::makespan), .host = of(&PassTiming::issued)},
          .compute = of(&PassTiming::compute),
          .recompute = of(&PassTiming::recompute),
          .interference = of(&PassTiming::interference),
          .waits = {.tensor = waits(core::SpanKind::TensorCommunication),
                    .context = waits(core::SpanKind::ContextCommunication),
                    .expert = waits(core::SpanKind::ExpertCommunication),
                    .gather = waits(core::SpanKind::ParameterGather),
                    .data = waits(core::SpanKind::DataCommunication)}};
}

GradientTimes gradient_times(const Timings& timings) {
  const std::vector<PassTiming>& two = timings.by_layers[1];
  const std::size_t last = two.size() - 1;
  const auto before_end = [&](std::optional<Seconds> PassTiming::*part) {
    return timings.of(last, [=](const PassTiming& timing) {
      return timing.*part ? timing.makespan - *(timing.*part) : Seconds(0);
    });
  };
  const auto complete = [&](const std::optional<Seconds>& layer) {
    return layer.value_or(two[last].makespan);
  };
  const Seconds per_layer = complete(two[last].first_layer) - complete(two[last].second_layer);
  const Seconds plain = timings.by_layers[2][last].makespan - two[last].makespan;
  return {.embedding = before_end(&PassTiming::embedding),
          .head = before_end(&PassTiming::head),
          .first_layer = before_end(&PassTiming::first_layer),
          .per_layer = per_layer,
          .per_plain_layer = timings.base == 0 ? per_layer : plain};
}

/// How long a stream is busy in all passes.
AffineSeconds busy(const Timings& timings, core::Stream stream) {
  return timings.of_all([=](const std::vector<PassTiming>& passes) {
    Seconds all;
    for (const PassTiming& pass : passes) all += pass.busy[static_cast<std::size_t>(stream)];
    return all;
  });
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

PassMemory StageMemory::at(int layers) const {
  const int beyond = layers - base;
  if (beyond == 1) return of_one;
  return combined(of_two, per_layer, [beyond](const MemoryByTerm& two, const MemoryByTerm& each) {
    return two + each * (beyond - 2);
  });
}

namespace {

/// On the line through two values, beyond the second.
class Further {
 public:
  explicit Further(int times) : times_(times) {}

  Seconds operator()(Seconds a, Seconds b) const { return b + (b - a) * times_; }
  MemoryByTerm operator()(const MemoryByTerm& a, const MemoryByTerm& b) const {
    return b + (b + a * -1.0) * times_;
  }
  AffineSeconds operator()(const AffineSeconds& a, const AffineSeconds& b) const {
    AffineSeconds result = b;
    result.base += times_;
    for (std::size_t i = 0; i < result.of_few.size(); ++i) {
      result.of_few[i] = (*this)(a.of_few[i], b.of_few[i]);
    }
    return result;
  }
  Waits operator()(const Waits& a, const Waits& b) const {
    return {.tensor = (*this)(a.tensor, b.tensor),
            .context = (*this)(a.context, b.context),
            .expert = (*this)(a.expert, b.expert),
            .gather = (*this)(a.gather, b.gather),
            .data = (*this)(a.data, b.data)};
  }
  PassTime operator()(const PassTime& a, const PassTime& b) const {
    return {.makespan = {.device = (*this)(a.makespan.device, b.makespan.device),
                         .host = (*this)(a.makespan.host, b.makespan.host)},
            .compute = (*this)(a.compute, b.compute),
            .recompute = (*this)(a.recompute, b.recompute),
            .interference = (*this)(a.interference, b.interference),
            .waits = (*this)(a.waits, b.waits)};
  }

 private:
  int times_;
};

}  // namespace

StageProfile further(const StageProfile& fewer, const StageProfile& more, int times) {
  const Further of(times);
  StageProfile result = more;
  result.base += times;
  result.forward = of(fewer.forward, more.forward);
  result.backward = of(fewer.backward, more.backward);
  result.gathering = of(fewer.gathering, more.gathering);
  result.reducing = of(fewer.reducing, more.reducing);
  result.gradients = {.embedding = of(fewer.gradients.embedding, more.gradients.embedding),
                      .head = of(fewer.gradients.head, more.gradients.head),
                      .first_layer = of(fewer.gradients.first_layer, more.gradients.first_layer),
                      .per_layer = more.gradients.per_layer,
                      .per_plain_layer = more.gradients.per_plain_layer};
  return result;
}

StageMemory further(const StageMemory& fewer, const StageMemory& more, int times) {
  const auto of = [times](const PassMemory& a, const PassMemory& b) {
    return combined(a, b, Further(times));
  };
  return {more.base + times, of(fewer.of_one, more.of_one), of(fewer.of_two, more.of_two),
          more.per_layer};
}

Seconds GradientTimes::before_end(StagePart part, int layers) const {
  const int base = first_layer.base;
  switch (part.kind) {
    case StagePart::Kind::Embedding:
      return embedding.at(layers);
    case StagePart::Kind::Layer:
      return first_layer.at(layers) + per_layer * std::min(part.layer, base) +
             per_plain_layer * std::max(part.layer - base, 0);
    case StagePart::Kind::Head:
      return head.at(layers);
  }
  core::check_failed("StagePart", "unknown part", __FILE__, __LINE__);
}

Seconds StageProfile::held_up(int layers) const {
  const Seconds all = forward.makespan.device.at(layers) + backward.makespan.device.at(layers) +
                      weight_grad.makespan.device.at(layers);
  return std::max(gathering.at(layers) + reducing.at(layers) - all, Seconds(0));
}

Seconds StageProfile::backward_pass(int layers) const {
  return std::max(backward.makespan.at(layers),
                  backward.makespan.device.at(layers) + held_up(layers));
}

Seconds StageProfile::passes(int layers) const {
  return forward.makespan.at(layers) + backward_pass(layers) + weight_grad.makespan.at(layers);
}

Seconds StageProfile::device_passes(int layers) const {
  return forward.makespan.device.at(layers) + backward.makespan.device.at(layers) +
         held_up(layers) + weight_grad.makespan.device.at(layers);
}

Seconds StageProfile::waits(AffineSeconds Waits::*kind, int layers) const {
  const Seconds within = (forward.waits.*kind).at(layers) + (backward.waits.*kind).at(layers) +
                         (weight_grad.waits.*kind).at(layers);
  const bool gathers = gathering.at(layers) > reducing.at(layers);
  return kind == (gathers ? &Waits::gather : &Waits::data) ? within + held_up(layers) : within;
}

Seconds StageProfile::interference(int layers) const {
  return forward.interference.at(layers) + backward.interference.at(layers) +
         weight_grad.interference.at(layers);
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
  alone.data = std::min(alone.data, 2);  // Whether there is a group; how large it is, is its cost.
  alone.bucket.reset();
  alone.overlap_gradients = true;
  return alone;
}

core::DensePlan passes_structure_alone(const core::DensePlan& plan) {
  core::DensePlan alone = passes_alone(plan);
  alone.tensor = fewest_ways(plan.tensor);
  if (plan.expert_tensor > 1) alone.expert_tensor = alone.tensor;
  alone.sharding = fewest_ways(alone.sharding);
  return alone;
}

PassStructure::PassStructure(const core::DensePlan& plan, StagePlace ends, const core::Model& model,
                             const core::Job& job)
    : base(plan.recompute_layers.value_or(0)) {
  const int few = plan.sharding_stage > 1 ? 4 : 3;
  for (int beyond = 1; beyond <= few; ++beyond) {
    stages.push_back(lowered_stage(plan, ends, base + beyond, model, job));
  }
}

StagePasses::StagePasses(const core::DensePlan& plan, StagePlace ends,
                         const PassStructure& structure, const core::Model& model,
                         const core::Job& job, const core::Device& device)
    : ends_(ends), base_(structure.base), outliner_(device, job.precision) {
  int layers = base_;
  for (const core::Role& like : structure.stages) {
    stages_.push_back(lowered(++layers, like, plan, model, job));
  }
}

StagePasses::Layers StagePasses::lowered(int layers, const core::Role& like,
                                         const core::DensePlan& plan, const core::Model& model,
                                         const core::Job& job) {
  const ScaledStage stage = scaled_stage(plan, ends_, layers, model, job, like);
  microbatch_ = stage.microbatch;
  return {outliner_.outline(stage), scaled_pass_memory(stage)};
}

StageProfile StagePasses::profile(int microbatch, int sharding, const PlanGroups& groups,
                                  const FabricCost& fabric,
                                  const PassConditions& conditions) const {
  const int scale = microbatch / microbatch_;
  const std::vector<Seconds> durations = outliner_.durations({scale, sharding}, groups, fabric);
  Timings timings{base_, {}};
  for (const Layers& stage : stages_) {
    std::vector<PassTiming>& of_passes = timings.by_layers.emplace_back();
    for (const PassOutline& pass : stage.outline.passes) {
      of_passes.push_back(timing_of(pass, durations, conditions));
    }
  }
  const std::vector<PassTiming>& two = timings.by_layers[1];
  StageProfile profile;
  profile.base = base_;
  profile.forward = pass_time(timings, 0);
  profile.backward = pass_time(timings, 1);
  if (two.size() > 2) profile.weight_grad = pass_time(timings, 2);
  profile.gathering = busy(timings, core::Stream::Gather);
  profile.reducing = busy(timings, core::Stream::Data);
  profile.gradients = gradient_times(timings);
  if (!ends_.last) profile.ahead = two[1].ahead;
  profile.message = stages_[1].outline.message.at(scale);
  return profile;
}

StageMemory StagePasses::memory(int microbatch) const {
  const int scale = microbatch / microbatch_;
  StageMemory memory{base_, stages_[0].memory.at(scale), stages_[1].memory.at(scale), {}};
  memory.per_layer =
      combined(stages_[2].memory.at(scale), memory.of_two,
               [](const MemoryByTerm& a, const MemoryByTerm& b) { return a + b * -1.0; });
  return memory;
}

}  // namespace orrery::costmodel
