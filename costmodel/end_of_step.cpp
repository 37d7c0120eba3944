// The end of a step: DenseEstimator::end_of_step. Mirrors core/lowering/decoder_step.cpp with two
// streams per stage, compute and data, each in order.

#include <algorithm>

#include "costmodel/compute_cost.h"
#include "costmodel/dense_estimator.h"

namespace orrery::costmodel {
namespace {

using core::CollectiveKind;
using core::Seconds;

constexpr double kFloatBytes = 4.0;

}  // namespace

Seconds DenseEstimator::compute(const core::Operator& op) const {
  const core::Compute instruction{.op = op,
                                  .work = core::work_of(op, core::dtype_bytes(job_.precision))};
  return compute_time(instruction, device_, job_.precision) * ranks_per_core_;
}

DenseEstimator::BucketTimes DenseEstimator::bucket_times(const core::DensePlan& plan,
                                                         const Groups& groups,
                                                         std::int64_t elements) const {
  BucketTimes times;
  if (elements == 0) return times;
  const auto whole = static_cast<double>(elements);
  const std::int64_t slice = elements / plan.sharding;
  times.scatter = collective(CollectiveKind::ReduceScatter, whole * kFloatBytes, groups.sharding);
  times.reduce =
      collective(CollectiveKind::AllReduce, static_cast<double>(slice) * kFloatBytes, groups.data);
  times.gather = collective(CollectiveKind::AllGather, whole * core::dtype_bytes(job_.precision),
                            groups.sharding);
  times.norm = compute(core::SquaredNorm{slice});
  times.update = compute(core::OptimizerUpdate{slice, job_.optimizer});
  return times;
}

std::vector<DenseEstimator::StageBucketTimes> DenseEstimator::all_bucket_times(
    const core::DensePlan& plan, const Groups& groups, const Stages& stages) const {
  std::vector<StageBucketTimes> times;
  for (std::size_t s = 0; s < stages.buckets.size(); ++s) {
    // Stages between the first and the last are alike.
    if (s > 1 && s + 1 < stages.buckets.size()) {
      times.push_back(times.back());
      continue;
    }
    const StageBuckets& b = stages.buckets[s];
    times.push_back({bucket_times(plan, groups, b.embedding), bucket_times(plan, groups, b.layer),
                     bucket_times(plan, groups, b.head)});
  }
  return times;
}

// Per stage, when all gradients are reduced and their norms taken.
std::vector<Seconds> DenseEstimator::gradients_ready(
    const core::DensePlan& plan, const Groups& groups, const Stages& stages,
    const std::vector<StageBucketTimes>& times) const {
  const std::size_t p = stages.buckets.size();
  const bool tied = model_.tied_embeddings && p > 1;
  std::vector<Seconds> data_free(p), compute_free(p);
  const auto reduce = [&](std::size_t s, Seconds ready, const BucketTimes& bucket) {
    data_free[s] = std::max(data_free[s], ready) + bucket.scatter + bucket.reduce;
    compute_free[s] = std::max(compute_free[s], data_free[s]) + bucket.norm;
  };
  for (std::size_t s = 0; s < p; ++s) {
    compute_free[s] = stages.stage_finish[s];
    // The last chunk's gradients are ready first.
    for (std::size_t c = stages.profile.size() - p + s; c < stages.profile.size(); c -= p) {
      const StageProfile& profile = *stages.profile[c];
      const bool split = core::splits_backward(plan.schedule);
      const PassTime& last_pass = split ? profile.weight_grad : profile.backward;
      const int layers = plan.layers_per_stage[c];
      // Counted from the pass's end, since it may have waited for a gradient in its first layer.
      Seconds ready = stages.finish[c] +
                      (profile.head_backward - last_pass.makespan.at(layers)) * ranks_per_core_;
      if (c + 1 == stages.profile.size() && !tied) reduce(s, ready, times[s].head);
      for (int l = 0; l < layers; ++l) {
        ready += last_pass.makespan.per_layer * ranks_per_core_;
        reduce(s, ready, times[s].layer);
      }
    }
    if (s == 0 && !tied) reduce(s, stages.finish[0], times[s].embedding);
  }
  if (tied) {
    // Both ends of the pipeline sum the gradients of the embedding they share.
    const Seconds both =
        std::max({data_free.front(), data_free.back(), stages.pipeline_time()}) +
        collective(CollectiveKind::AllReduce,
                   static_cast<double>(stages.buckets[0].tied) * kFloatBytes, groups.tied);
    reduce(0, both, times.front().embedding);
    reduce(p - 1, both, times.back().head);
  }
  return compute_free;
}

DenseEstimator::EndOfStep DenseEstimator::end_of_step(const core::DensePlan& plan,
                                                      const Groups& groups,
                                                      const Stages& stages) const {
  const std::vector<StageBucketTimes> times = all_bucket_times(plan, groups, stages);
  const std::vector<Seconds> ready = gradients_ready(plan, groups, stages, times);
  const Seconds norm = *std::max_element(ready.begin(), ready.end()) +
                       collective(CollectiveKind::AllReduce, kFloatBytes, groups.model);
  const Seconds loss = norm + collective(CollectiveKind::AllReduce, kFloatBytes, groups.world);
  const Seconds clip =
      compute(core::ClipFactor{job_.clip_norm.has_value(), job_.clip_norm.value_or(0)});
  EndOfStep longest;
  for (std::size_t s = 0; s < times.size(); ++s) {
    Seconds updated = norm + clip;
    Seconds gathered = loss;
    Seconds optimizer = clip;
    const auto update = [&](const BucketTimes& bucket) {
      updated += bucket.update;
      if (plan.sharding > 1) gathered = std::max(gathered, updated) + bucket.gather;
      optimizer += bucket.norm + bucket.update;
    };
    update(times[s].embedding);
    for (std::size_t c = s; c < plan.layers_per_stage.size(); c += times.size()) {
      for (int l = 0; l < plan.layers_per_stage[c]; ++l) update(times[s].layer);
    }
    update(times[s].head);
    const Seconds all = std::max(updated, gathered) - stages.pipeline_time();
    if (all > longest.all) longest = {all, std::min(optimizer, all)};
  }
  return longest;
}

}  // namespace orrery::costmodel
