#include "costmodel/plan_timer.h"

#include <algorithm>

#include "core/error.h"

namespace orrery::costmodel {
namespace {

using core::Axis;
using core::Bytes;
using core::Seconds;

void mix(std::size_t& hash, std::size_t value) {
  // FNV-1a over whole words.
  constexpr std::size_t kPrime = 1099511628211ULL;
  hash = (hash ^ value) * kPrime;
}

/// Whether tensor and context groups lie within the groups of all other axes, so that these do not
/// move them.
bool innermost(const core::DensePlan& plan) {
  const auto inner = [](Axis axis) { return axis == Axis::Tensor || axis == Axis::Context; };
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

std::size_t PlanHash::operator()(const core::DensePlan& plan) const noexcept {
  std::size_t hash = 14695981039346656037ULL;
  for (const int degree :
       {plan.data, plan.sharding, plan.sharding_stage, plan.tensor, plan.pipeline, plan.context,
        plan.expert, plan.virtual_stages, plan.microbatch, static_cast<int>(plan.schedule),
        static_cast<int>(plan.recompute), plan.sequence_parallel ? 1 : 0,
        plan.recompute_layers.value_or(0)}) {
    mix(hash, static_cast<std::size_t>(degree));
  }
  for (const int layers : plan.layers_per_stage) mix(hash, static_cast<std::size_t>(layers));
  return hash;
}

PlanTimer::Passes& PlanTimer::passes() {
  if (passes_now_ != nullptr) return *passes_now_;
  key_ = plan_;
  if (plan_.sharding_stage <= 1 && innermost(plan_) && !estimator_.several_kinds()) {
    key_.data = plan_.data_ways();
    key_.sharding = 1;
    key_.sharding_stage = 0;
  }
  key_.bucket.reset();
  key_.overlap_gradients = true;
  const auto [entry, added] = passes_.try_emplace(key_);
  passes_now_ = &entry->second;
  if (!added) return *passes_now_;
  passes_now_->passes = estimator_.passes(plan_);
  passes_now_->least_peak = estimator_.least_peaks(passes_now_->passes);
  return *passes_now_;
}

PlanTimer::Steps& PlanTimer::persistent_of(const core::DensePlan& plan) {
  key_ = plan;
  key_.microbatch = 1;
  key_.recompute = core::Recompute::None;
  key_.recompute_layers.reset();
  key_.schedule = order_free(plan.schedule);
  key_.pass_times.reset();
  const auto [entry, added] = steps_.try_emplace(key_);
  if (added) entry->second.persistent = estimator_.persistent(plan);
  return entry->second;
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
  constexpr std::size_t kKept = 8192;  // Some tens of megabytes.
  if (passes_.size() <= kKept && steps_.size() <= kKept) return;
  steps_.clear();
  passes_.clear();  // Their times are kept by what the steps gave them.
  before_end_.clear();
}

void PlanTimer::turn_to(const core::DensePlan& plan) {
  plan_ = plan;
  passes_now_ = nullptr;
  steps_now_ = &persistent_of(plan);
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

Bytes PlanTimer::least_memory() { return most_with(passes().least_peak); }

Bytes PlanTimer::memory() {
  Passes& now = passes();
  if (now.peak.empty()) {
    for (const StagePeak& stage : estimator_.peaks(now.passes)) {
      now.peak.push_back(total(stage.memory));
    }
  }
  return most_with(now.peak);
}

Seconds PlanTimer::lower_bound() {
  const PlanPasses& all = passes().passes;
  const Steps& now = steps();
  Seconds bound = all.lower_bound;
  for (std::size_t k = 0; k < all.stages.size(); ++k) {
    bound = std::max(bound, all.stages[k].passes * all.shape.microbatches + now.computing[k]);
  }
  return bound;
}

const PlanFinish* PlanTimer::Passes::finish_of(int before_end) const {
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
      of.finish.emplace_back(alike[i].steps->before_end, plan_finish(of.passes, finishes[i]));
    }
    alike.clear();
    stages.clear();
  };
  for (const Kept& plan : plans) {
    const int before_end = plan.steps->before_end;
    if (plan.passes->finish_of(before_end) != nullptr) continue;
    const bool asked = std::any_of(alike.begin(), alike.end(), [&](const Kept& other) {
      return other.passes == plan.passes && other.steps->before_end == before_end;
    });
    if (asked) continue;
    if (!alike.empty() && alike.front().passes->passes.shape != plan.passes->passes.shape) replay();
    alike.push_back(plan);
    stages.push_back(estimator_.pipeline(plan.passes->passes, plan.steps->steps));
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
