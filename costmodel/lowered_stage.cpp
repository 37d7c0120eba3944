#include "costmodel/lowered_stage.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "core/error.h"
#include "core/lowering/lowering.h"
#include "core/lowering/pipeline_schedule.h"

namespace orrery::costmodel {

namespace {

/// What core lowers for one microbatch of such a stage.
struct LoneStage {
  core::Plan plan;
  core::Job job;
  int stage = 0;
};

LoneStage lone_stage(const core::DensePlan& plan, StagePlace ends, int layers,
                     const core::Job& job) {
  LoneStage lone{{}, job, ends.first ? 0 : 1};
  core::DensePlan& dense = lone.plan.dense.emplace(plan);
  dense.pipeline = 1 + (ends.first ? 0 : 1) + (ends.last ? 0 : 1);
  dense.layers_per_stage.assign(static_cast<std::size_t>(dense.pipeline), layers);
  lone.job.global_batch = dense.data_ways() * dense.microbatch;
  return lone;
}

}  // namespace

core::Role lowered_stage(const core::DensePlan& plan, StagePlace ends, int layers,
                         const core::Model& model, const core::Job& job) {
  const LoneStage lone = lone_stage(plan, ends, layers, job);
  return core::lower_stage(lone.plan, model, lone.job, lone.stage);
}

core::Role lowered_step(const core::DensePlan& plan, StagePlace ends, int layers,
                        const core::Model& model, const core::Job& job) {
  const LoneStage lone = lone_stage(plan, ends, layers, job);
  return core::lower_step(lone.plan, model, lone.job, lone.stage);
}

ScaledStage scaled_stage(const core::DensePlan& plan, StagePlace ends, int layers,
                         const core::Model& model, const core::Job& job, const core::Role& like) {
  ScaledStage stage;
  stage.sharding = plan.sharding;
  const int part = job.sequence / plan.context;
  if (plan.sequence_parallel) stage.microbatch = plan.tensor / std::gcd(plan.tensor, part);
  core::DensePlan smallest = plan;
  smallest.microbatch = stage.microbatch;
  const LoneStage lone = lone_stage(smallest, ends, layers, job);
  stage.role = core::lower_stage_like(like, lone.plan, model, lone.job, lone.stage);
  smallest.microbatch *= 2;
  stage.buffers = scaled_buffers(stage.role, lowered_step(smallest, ends, layers, model, job));
  return stage;
}

std::vector<ScaledBytes> scaled_buffers(const core::Role& one, const core::Role& twice) {
  ORRERY_CHECK(one.buffers.size() == twice.buffers.size(), "a stage of other buffers");
  std::vector<ScaledBytes> result;
  result.reserve(one.buffers.size());
  for (std::size_t i = 0; i < one.buffers.size(); ++i) {
    const core::Bytes scaled = twice.buffers[i].bytes() - one.buffers[i].bytes();
    result.push_back({one.buffers[i].bytes() - scaled, scaled});
  }
  return result;
}

int fewest_ways(int degree) {
  for (int ways = 2; ways < degree; ++ways) {
    if (degree % ways == 0) return ways;
  }
  return degree;
}

StagePart part_at(const core::Parameters& parameters, std::int64_t first) {
  const std::vector<std::int64_t>& experts = parameters.expert_bounds;
  const bool in_experts = !experts.empty() && first >= experts.front();
  const std::vector<std::int64_t>& bounds = in_experts ? experts : parameters.layer_bounds;
  const auto after = std::upper_bound(bounds.begin(), bounds.end(), first);
  if (after == bounds.begin()) return {StagePart::Kind::Embedding, 0};
  if (after == bounds.end()) return {StagePart::Kind::Head, 0};
  return {StagePart::Kind::Layer, static_cast<int>(after - bounds.begin()) - 1};
}

namespace {

/// A parameter of the bucket that element `first` of a buffer belongs to: in a buffer of slices, one
/// no further on than the slice is long.
std::int64_t parameter_at(const core::Parameters& parameters, std::int64_t first,
                          std::int64_t core::BucketPlace::*place) {
  const auto after = std::upper_bound(
      parameters.buckets.begin(), parameters.buckets.end(), first,
      [&](std::int64_t at, const core::BucketPlace& bucket) { return at < bucket.*place; });
  const core::BucketPlace& bucket = *std::prev(after);
  return bucket.parameters + (first - bucket.*place);
}

}  // namespace

std::optional<StagePart> part_of(const std::vector<core::View>& views,
                                 const core::Parameters& parameters, bool values) {
  for (const core::View& view : views) {
    if (view.buffer == parameters.gradients) {
      return part_at(parameters,
                     parameter_at(parameters, view.first, &core::BucketPlace::gradients));
    }
    if (values && view.buffer == parameters.values) {
      return part_at(parameters, parameter_at(parameters, view.first, &core::BucketPlace::values));
    }
  }
  return std::nullopt;
}

core::PipelineSchedule order_free(core::PipelineSchedule schedule) {
  return core::splits_backward(schedule) ? core::PipelineSchedule::ZeroBubbleH1
                                         : core::PipelineSchedule::OneFOneB;
}

std::vector<const core::Block*> pass_blocks(const core::Role& role) {
  std::vector<const core::Block*> blocks;
  for (const core::Call& call : role.step) {
    if (call.microbatch) blocks.push_back(&role.blocks[call.block.index()]);
  }
  return blocks;
}

}  // namespace orrery::costmodel
