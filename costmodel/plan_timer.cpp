#include "costmodel/plan_timer.h"

#include <algorithm>

#include "core/error.h"

namespace orrery::costmodel {
namespace {

using core::Axis;
using core::Bytes;
using core::Seconds;

/// Whether tensor, context and expert groups lie within the groups of all other axes, so that these do
/// not move them.
bool innermost(const core::DensePlan& plan) {
  const auto inner = [](Axis axis) {
    return axis == Axis::Tensor || axis == Axis::Context || axis == Axis::Expert;
  };
  const auto outer = std::find_if_not(plan.axis_order.begin(), plan.axis_order.end(), inner);
  return std::none_of(outer, plan.axis_order.end(), inner);
}

Seconds on_compute_stream(const StepProfile& step) {
  Seconds sum = step.begin;
  for (const EndInstruction& instruction : step.end->instructions) {
    if (instruction.stream == core::Stream::Compute) sum += step.durations[instruction.line];
  }
  return sum;
}

}  // namespace

PlanTimer::BySharing<PlanTimer::Steps>& PlanTimer::steps_alike(const core::DensePlan& plan) {
  key_ = plan;
  key_.microbatch = 1;
  key_.recompute = core::Recompute::None;
  key_.recompute_layers.reset();
  key_.schedule = order_free(plan.schedule);
  key_.pass_times.reset();
  // Stages of so many layers, in whatever chunks.
  key_.virtual_stages = 1;
  key_.layers_per_stage.clear();
  for (const AlikeStages& stage : estimator_.kinds(plan).stages) {
    key_.layers_per_stage.push_back(stage.layers);
  }
  return steps_[key_];
}

void PlanTimer::turn_to(const core::DensePlan& plan) {
  plan_ = plan;
  const PassSharing sharing{plan.sharding_stage, plan.data, plan.sharding};
  key_ = plan;
  key_.data = key_.sharding = 1;
  key_.sharding_stage = 0;
  if (outlines_.empty() || key_ != outline_plan_) {
    std::swap(key_, outline_plan_);
    outlines_.emplace_back().steps = &steps_alike(outline_plan_);
  }
  memory_now_ = nullptr;
  passes_now_ = nullptr;
  steps_now_ = &outlines_.back().steps->of(sharing, [&] {
    Steps steps;
    steps.persistent = estimator_.persistent(plan_);
    return steps;
  });
}

PlanTimer::Memory& PlanTimer::pass_memory() {
  if (memory_now_ == nullptr) {
    memory_now_ = &outlines_.back().memory.of(estimator_.pass_sharing(plan_), [&] {
      Memory memory{estimator_.memory(plan_), {}, {}};
      memory.least_peak = DenseEstimator::least_peaks(memory.of_passes);
      return memory;
    });
  }
  return *memory_now_;
}

PlanTimer::Passes& PlanTimer::passes() {
  if (passes_now_ == nullptr) {
    const bool alike = plan_.sharding_stage <= 1 && innermost(plan_) && !estimator_.several_kinds();
    const PassSharing sharing = alike
                                    ? PassSharing{0, plan_.data_ways(), 1}
                                    : PassSharing{plan_.sharding_stage, plan_.data, plan_.sharding};
    passes_now_ = &outlines_.back().passes.of(sharing, [&] {
      return Passes{estimator_.passes(plan_), {}};
    });
  }
  return *passes_now_;
}

PlanTimer::Steps& PlanTimer::steps() {
  Steps& now = *steps_now_;
  if (!now.computing.empty()) return now;
  now.steps = estimator_.steps(plan_);
  BeforeEnd before{now.steps.routes, {}};
  for (const StepProfile& step : now.steps.of_kind) {
    now.computing.push_back(on_compute_stream(step));
    before.second.push_back(step.begin);
  }
  const auto next = static_cast<int>(before_end_.size());
  now.before_end = before_end_.try_emplace(std::move(before), next).first->second;
  return now;
}

void PlanTimer::forget_many() {
  constexpr std::size_t kKept = 2048;  // Some tens of megabytes.
  if (outlines_.size() <= kKept) return;
  outlines_.clear();  // And the pipelines' times, which are kept by what the steps gave them.
  steps_.clear();
  before_end_.clear();
}

Bytes PlanTimer::persistent() const {
  return *std::max_element(steps_now_->persistent.begin(), steps_now_->persistent.end()) +
         estimator_.device().reserved;
}

Bytes PlanTimer::most_with(const std::vector<Bytes>& of_passes) const {
  Bytes most;
  for (std::size_t k = 0; k < of_passes.size(); ++k) {
    most = std::max(most, steps_now_->persistent[k] + of_passes[k]);
  }
  return most + estimator_.device().reserved;
}

Bytes PlanTimer::least_memory() { return most_with(pass_memory().least_peak); }

Bytes PlanTimer::memory() {
  Memory& now = pass_memory();
  if (now.peak.empty()) {
    for (const StagePeak& stage : estimator_.peaks(now.of_passes)) {
      now.peak.push_back(total(stage.memory));
    }
  }
  return most_with(now.peak);
}

Seconds PlanTimer::lower_bound() {
  const PlanPasses& all = passes().passes;
  const Steps& now = steps();
  Seconds bound = all.lower_bound;
  for (std::size_t k = 0; k < all.of_stage.size(); ++k) {
    bound = std::max(bound, all.of_stage[k] * all.shape.microbatches + now.computing[k]);
  }
  return bound;
}

PlanFinish* PlanTimer::Passes::finish_of(int before_end) {
  const auto known = std::find_if(finish.begin(), finish.end(),
                                  [=](const auto& entry) { return entry.first == before_end; });
  return known == finish.end() ? nullptr : &known->second;
}

void PlanTimer::finish(const std::vector<Kept>& plans) {
  std::vector<Kept> alike;
  std::vector<PipelineStages> stages;
  const auto replay = [&] {
    if (alike.empty()) return;
    const auto finishes = pipeline_finishes(alike.front().passes->passes.shape, stages, graphs_);
    for (std::size_t i = 0; i < alike.size(); ++i) {
      Passes& of = *alike[i].passes;
      *of.finish_of(alike[i].steps->before_end) = plan_finish(of.passes, finishes[i]);
    }
    alike.clear();
    stages.clear();
  };
  for (const Kept& plan : plans) {
    Passes& passes = *plan.passes;
    if (passes.finish_of(plan.steps->before_end) != nullptr) continue;
    if (!alike.empty() && alike.front().passes->passes.shape != passes.passes.shape) replay();
    passes.finish.emplace_back(plan.steps->before_end, PlanFinish());  // Until it is replayed.
    alike.push_back(plan);
    stages.push_back(estimator_.pipeline(passes.passes, plan.steps->steps));
  }
  replay();
}

Seconds PlanTimer::step(const Kept& plan) {
  const PlanFinish* finish = plan.passes->finish_of(plan.steps->before_end);
  ORRERY_CHECK(finish != nullptr, "a plan whose pipeline was not worked out");
  return estimator_.end_of_step(plan.passes->passes, plan.steps->steps, *finish).end;
}

Seconds PlanTimer::step() {
  const Kept now = keep();
  finish({now});
  return step(now);
}

}  // namespace orrery::costmodel
