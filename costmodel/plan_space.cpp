#include "costmodel/plan_space.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/check/plan_check.h"
#include "core/check/plan_rules.h"
#include "core/lowering/pipeline_schedule.h"
#include "costmodel/dense_estimator.h"

namespace orrery::costmodel {
namespace {

std::vector<int> divisors(int n) {
  std::vector<int> result;
  std::vector<int> large;
  for (int d = 1; d <= n / d; ++d) {
    if (n % d != 0) continue;
    result.push_back(d);
    if (d != n / d) large.push_back(n / d);
  }
  result.insert(result.end(), large.rbegin(), large.rend());
  return result;
}

/// Whether a plan may have `value` where `wanted` is asked for.
template <class T>
bool may_be(const std::optional<T>& wanted, T value) {
  return !wanted || *wanted == value;
}

/// The fewest stages that the schedule asked for makes sense with.
int plainest_pipeline(const PlanConditions& wanted) {
  if (wanted.pipeline) return *wanted.pipeline;
  const bool staged = (wanted.schedule && *wanted.schedule != core::PipelineSchedule::OneFOneB) ||
                      wanted.virtual_stages.value_or(1) > 1;
  return staged ? 2 : 1;
}

}  // namespace

namespace {

/// From neighbouring ranks outwards.
std::vector<core::Axis> axes_of(const core::DensePlan& plan) {
  std::vector<core::Axis> order = {core::Axis::Tensor};
  if (plan.context > 1) order.push_back(core::Axis::Context);
  if (plan.expert > 1) order.push_back(core::Axis::Expert);
  order.insert(order.end(), {core::Axis::Sharding, core::Axis::Pipeline, core::Axis::Data});
  return order;
}

}  // namespace

core::DensePlan plainest_plan(const core::Transformer& model, int devices,
                              const PlanConditions& wanted) {
  core::DensePlan plan;
  const bool interleaved = wanted.schedule == core::PipelineSchedule::Interleaved;
  plan.tensor = wanted.tensor.value_or(wanted.sequence_parallel.value_or(false) ? 2 : 1);
  plan.pipeline = plainest_pipeline(wanted);
  plan.context = wanted.context.value_or(1);
  plan.expert = wanted.expert.value_or(1);
  plan.expert_tensor = wanted.expert_tensor.value_or(model.experts > 1 ? plan.tensor : 1);
  plan.expert_capacity = wanted.expert_capacity;
  plan.virtual_stages = wanted.virtual_stages.value_or(interleaved ? 2 : 1);
  const std::int64_t in_a_way =
      std::int64_t{plan.tensor} * plan.pipeline * plan.context * plan.expert;
  const int ways = std::max(1, static_cast<int>(devices / in_a_way));
  plan.sharding = wanted.sharding.value_or(wanted.sharding_stage.value_or(0) > 0 ? ways : 1);
  plan.sharding_stage = wanted.sharding_stage.value_or(plan.sharding > 1 ? 1 : 0);
  const std::int64_t others = in_a_way * plan.sharding;
  plan.data = wanted.data.value_or(std::max(1, static_cast<int>(devices / others)));
  plan.microbatch = wanted.microbatch.value_or(1);
  plan.sequence_parallel = wanted.sequence_parallel.value_or(false);
  plan.recompute = wanted.recompute.value_or(core::Recompute::None);
  plan.schedule =
      wanted.schedule.value_or(plan.virtual_stages > 1 ? core::PipelineSchedule::Interleaved
                                                       : core::PipelineSchedule::OneFOneB);
  plan.axis_order = axes_of(plan);
  const std::int64_t stages = std::int64_t{plan.pipeline} * plan.virtual_stages;
  if (stages <= model.layers) {
    plan.layers_per_stage = core::even_layers(model.layers, static_cast<int>(stages));
  }
  return plan;
}

DensePlanSpace::DensePlanSpace(const core::Model& model, const core::Cluster& cluster,
                               const core::Job& job, const DenseEstimator& estimator,
                               const PlanConditions& conditions)
    : model_(model),
      job_(job),
      estimator_(estimator),
      conditions_(conditions),
      devices_(cluster.devices()) {}

std::vector<PlanCorner> DensePlanSpace::corners() const {
  const core::Transformer& t = *model_.transformer;
  const int cut_ffn = t.experts > 1 ? devices_ : std::gcd(t.ffn, devices_);  // Or whole experts.
  const int splits = std::gcd(std::gcd(t.heads, t.kv_heads), cut_ffn);
  std::vector<PlanCorner> corners;
  for (const int tensor : divisors(splits)) {
    if (!may_be(conditions_.tensor, tensor)) continue;
    for (const int pipeline : divisors(devices_ / tensor)) {
      if (pipeline > t.layers) break;
      if (!may_be(conditions_.pipeline, pipeline)) continue;
      for (const int context : divisors(devices_ / (tensor * pipeline))) {
        const int ways = devices_ / (tensor * pipeline * context);
        if (context != conditions_.context.value_or(1) || job_.global_batch % ways != 0) continue;
        for (const int expert : divisors(std::gcd(t.experts, ways))) {
          if (!may_be(conditions_.expert, expert)) continue;
          for (const int microbatch : divisors(job_.global_batch / ways)) {
            if (!may_be(conditions_.microbatch, microbatch)) continue;
            PlanCorner corner{tensor, pipeline, context, expert, microbatch, ways / expert};
            corners.push_back(corner);
            if (!estimator_.several_kinds() || pipeline == 1) continue;
            corner.pipeline_outermost = true;
            corners.push_back(corner);
          }
        }
      }
    }
  }
  return corners;
}

bool DensePlanSpace::valid(const core::DensePlan& plan) const {
  return !core::why_dense_invalid(plan, model_, job_, devices_);
}

void DensePlanSpace::visit(const PlanCorner& corner, const Visit& visit) const {
  core::DensePlan plan;
  plan.context = corner.context;
  plan.expert = corner.expert;
  plan.axis_order = axes_of(plan);
  if (corner.pipeline_outermost) {
    auto& order = plan.axis_order;
    order.erase(std::find(order.begin(), order.end(), core::Axis::Pipeline));
    order.push_back(core::Axis::Pipeline);
  }
  plan.tensor = corner.tensor;
  plan.pipeline = corner.pipeline;
  plan.microbatch = corner.microbatch;
  plan.expert_capacity = conditions_.expert_capacity;
  plan.data = corner.data_ways;
  // Most corners that cannot be, cannot in any detail.
  const int layers = model_.transformer->layers;
  plan.layers_per_stage = core::even_layers(layers, plan.pipeline);
  const std::vector<Within> ways = ways_within(plan);
  if (ways.empty()) return;
  using Schedule = core::PipelineSchedule;
  for (const auto schedule :
       {Schedule::OneFOneB, Schedule::GPipe, Schedule::ZeroBubbleH1, Schedule::ZeroBubble1p,
        Schedule::ZeroBubble2p, Schedule::Interleaved}) {
    if (!may_be(conditions_.schedule, schedule)) continue;
    if (plan.pipeline == 1 && schedule != Schedule::OneFOneB) continue;
    plan.schedule = schedule;
    for (const int chunks : divisors(layers % plan.pipeline == 0 ? layers / plan.pipeline : 1)) {
      if ((chunks > 1) != (schedule == Schedule::Interleaved)) continue;
      if (!may_be(conditions_.virtual_stages, chunks)) continue;
      plan.virtual_stages = chunks;
      visit_ways(plan, ways, visit);
    }
  }
}

std::vector<DensePlanSpace::Within> DensePlanSpace::ways_within(core::DensePlan plan) const {
  std::vector<Within> ways;
  for (const auto method : {core::ContextMethod::Ring, core::ContextMethod::AllToAll}) {
    plan.context_method = method;
    if (plan.context == 1 && method != core::ContextMethod::Ring) continue;
    for (const bool sequence_parallel : {false, true}) {
      plan.sequence_parallel = sequence_parallel;
      if (!may_be(conditions_.sequence_parallel, sequence_parallel)) continue;
      for (const int expert_tensor : expert_tensors(plan.tensor)) {
        plan.expert_tensor = expert_tensor;
        if (!may_be(conditions_.expert_tensor, expert_tensor) || !valid(plan)) continue;
        add_recomputes(plan, ways);
      }
    }
  }
  return ways;
}

std::vector<int> DensePlanSpace::expert_tensors(int tensor) const {
  if (model_.transformer->experts == 1 || tensor == 1) return {1};
  return {tensor, 1};
}

void DensePlanSpace::add_recomputes(core::DensePlan plan, std::vector<Within>& ways) const {
  for (const auto recompute :
       {core::Recompute::None, core::Recompute::Selective, core::Recompute::Full}) {
    plan.recompute = recompute;
    const bool asked = conditions_.recompute.has_value();
    if (recompute == core::Recompute::Selective && !asked) continue;
    if (!may_be(conditions_.recompute, recompute) || !valid(plan)) continue;
    ways.push_back({plan.context_method, plan.sequence_parallel, plan.expert_tensor, recompute});
  }
}

void DensePlanSpace::visit_ways(core::DensePlan& plan, const std::vector<Within>& ways,
                                const Visit& visit) const {
  for (const Within& within : ways) {
    plan.context_method = within.context_method;
    plan.sequence_parallel = within.sequence_parallel;
    plan.expert_tensor = within.expert_tensor;
    plan.recompute = within.recompute;
    if (core::computed_from_durations(plan.schedule) && !worth_computing(plan)) continue;
    visit_layers(plan, visit);
  }
}

void DensePlanSpace::visit_layers(core::DensePlan& plan, const Visit& visit) const {
  plan.layers_per_stage =
      core::even_layers(model_.transformer->layers, plan.pipeline * plan.virtual_stages);
  if (!complete(plan)) return;
  visit_recomputing(plan, visit);
  if (plan.pipeline == 1 || plan.virtual_stages > 1) return;
  std::vector<int> levelled = estimator_.balanced_layers(plan);
  if (levelled == plan.layers_per_stage) return;
  plan.layers_per_stage = std::move(levelled);
  if (complete(plan)) visit_recomputing(plan, visit);
}

void DensePlanSpace::visit_recomputing(core::DensePlan& plan, const Visit& visit) const {
  // All layers may need a little more than all but one, so whether that fits says nothing.
  std::vector<Sharing> fitting = visit_sharding(plan, visit);
  const bool some = plan.recompute == core::Recompute::Full && plan.virtual_stages == 1;
  if (!some || conditions_.recompute) return;
  core::DensePlan fewer = plan;
  const int least = *std::min_element(plan.layers_per_stage.begin(), plan.layers_per_stage.end());
  for (int layers = least - 1; layers > 0 && !fitting.empty(); --layers) {
    fewer.recompute_layers = layers;
    const auto does_not_fit = [&](const Sharing& s) {
      fewer.data = s.data;
      fewer.sharding = s.sharding;
      fewer.sharding_stage = s.stage;
      return !visit(fewer);
    };
    fitting.erase(std::remove_if(fitting.begin(), fitting.end(), does_not_fit), fitting.end());
  }
}

bool DensePlanSpace::complete(core::DensePlan& plan) const {
  plan.pass_times.reset();
  if (!core::computed_from_durations(plan.schedule)) return valid(plan);
  const core::PipelineSchedule schedule = plan.schedule;
  plan.schedule = core::PipelineSchedule::ZeroBubbleH1;
  const bool possible = valid(plan);
  plan.schedule = schedule;
  if (possible) plan.pass_times = estimator_.pass_times(plan);
  return possible;
}

bool DensePlanSpace::worth_computing(const core::DensePlan& plan) const {
  // ZB-H1 leaves some (p − 1)/(3m) idle: with 2p microbatches a sixth, of which part can be saved, at
  // milliseconds for each order.
  constexpr int kMicrobatchesPerStage = 2;
  if (plan.recompute != core::Recompute::None) return false;
  // On more stages the orders would take most of the search's time.
  constexpr int kMostStages = 16;
  if (conditions_.schedule) return true;
  return plan.pipeline <= kMostStages &&
         core::microbatches(plan, job_.global_batch) <= kMicrobatchesPerStage * plan.pipeline;
}

std::vector<DensePlanSpace::Sharing> DensePlanSpace::visit_sharding(core::DensePlan& plan,
                                                                    const Visit& visit) const {
  std::vector<Sharing> all;
  const int ways = plan.data;
  for (const int sharding : divisors(ways)) {
    plan.sharding = sharding;
    plan.data = ways / sharding;
    if (!may_be(conditions_.sharding, sharding) || !may_be(conditions_.data, plan.data)) continue;
    // Expert ranks share the state of what is no expert's without a sharding degree of their own.
    for (int stage = sharding > 1 ? 1 : 0; stage <= (sharding * plan.expert > 1 ? 3 : 0); ++stage) {
      plan.sharding_stage = stage;
      if (!may_be(conditions_.sharding_stage, stage) || !valid(plan)) continue;
      visit(plan);
      all.push_back({plan.data, sharding, stage});
    }
  }
  plan.data = ways;
  plan.sharding = 1;
  plan.sharding_stage = 0;
  return all;
}

std::vector<core::Plan> dense_plans(const core::Model& model, const core::Cluster& cluster,
                                    const core::Job& job) {
  const DenseEstimator estimator(model, cluster, job);
  const DensePlanSpace space(model, cluster, job, estimator, {});
  std::vector<core::Plan> plans;
  for (const PlanCorner& corner : space.corners()) {
    space.visit(corner, [&](const core::DensePlan& dense) {
      plans.emplace_back().dense = dense;
      return true;
    });
  }
  return plans;
}

std::vector<core::Plan> sparse_plans(const core::Model& model, const core::Cluster& cluster,
                                     const core::Job& job) {
  const int ranks = cluster.devices();
  std::vector<core::Plan> plans;
  const auto add = [&](int workers, int servers, bool colocated) {
    for (const int slices : {1, 2, 4}) {
      core::Plan plan;
      plan.sparse = core::SparsePlan{.workers = workers,
                                     .servers = servers,
                                     .colocated = colocated,
                                     .mode = core::UpdateMode::Synchronous,
                                     .slices = slices};
      if (!core::why_invalid(plan, model, job, ranks)) plans.push_back(std::move(plan));
    }
  };
  for (int servers = 1; servers < ranks; ++servers) add(ranks - servers, servers, false);
  for (const int servers : divisors(ranks)) add(ranks, servers, true);
  return plans;
}

}  // namespace orrery::costmodel
