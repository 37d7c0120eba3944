// The plans that a search looks at: dense_plans() and sparse_plans() of costmodel/search.h.

#include <algorithm>
#include <numeric>

#include "core/check/plan_check.h"
#include "costmodel/dense_estimator.h"
#include "costmodel/search.h"

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

/// Writes plans of growing detail; each level divides what the level before left.
class DenseSpace {
 public:
  DenseSpace(const core::Model& model, const core::Cluster& cluster, const core::Job& job)
      : model_(model), job_(job), devices_(cluster.devices()), estimator_(model, cluster, job) {}

  std::vector<core::Plan> plans() {
    const core::Transformer& t = *model_.transformer;
    const int splits = std::gcd(std::gcd(t.heads, t.kv_heads), std::gcd(t.ffn, devices_));
    for (const int tensor : divisors(splits)) {
      for (const int pipeline : divisors(devices_ / tensor)) {
        if (pipeline > t.layers) break;
        core::DensePlan plan;
        plan.tensor = tensor;
        plan.pipeline = pipeline;
        add_data_ways(plan, devices_ / (tensor * pipeline));
      }
    }
    return std::move(plans_);
  }

 private:
  void add_data_ways(core::DensePlan plan, int ways) {
    if (job_.global_batch % ways != 0) return;
    for (const int sharding : divisors(ways)) {
      plan.sharding = sharding;
      plan.sharding_stage = sharding > 1 ? 1 : 0;
      plan.data = ways / sharding;
      for (const int microbatch : divisors(job_.global_batch / ways)) {
        plan.microbatch = microbatch;
        add_schedules(plan);
      }
    }
  }

  void add_schedules(core::DensePlan plan) {
    for (const auto recompute : {core::Recompute::None, core::Recompute::Full}) {
      plan.recompute = recompute;
      plan.layers_per_stage = core::even_layers(model_.transformer->layers, plan.pipeline);
      const std::vector<int> even = plan.layers_per_stage;
      const std::vector<int> balanced = plan.pipeline > 1 ? estimator_.balanced_layers(plan) : even;
      for (const auto schedule :
           {core::PipelineSchedule::OneFOneB, core::PipelineSchedule::GPipe}) {
        if (plan.pipeline == 1 && schedule == core::PipelineSchedule::GPipe) continue;
        plan.schedule = schedule;
        add(plan, even);
        if (balanced != even) add(plan, balanced);
      }
    }
  }

  void add(core::DensePlan dense, const std::vector<int>& layers) {
    dense.layers_per_stage = layers;
    core::Plan plan;
    plan.dense = std::move(dense);
    if (!core::why_invalid(plan, model_, job_, devices_)) plans_.push_back(std::move(plan));
  }

  const core::Model& model_;
  const core::Job& job_;
  int devices_;
  DenseEstimator estimator_;
  std::vector<core::Plan> plans_;
};

}  // namespace

std::vector<core::Plan> dense_plans(const core::Model& model, const core::Cluster& cluster,
                                    const core::Job& job) {
  return DenseSpace(model, cluster, job).plans();
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
