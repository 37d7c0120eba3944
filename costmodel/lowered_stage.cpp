#include "costmodel/lowered_stage.h"

#include <algorithm>

#include "core/lowering/lowering.h"
#include "core/lowering/pipeline_schedule.h"

namespace orrery::costmodel {

core::Role lowered_stage(const core::DensePlan& plan, StageEnds ends, int layers,
                         const core::Model& model, const core::Job& job) {
  core::Plan alone;
  alone.dense = plan;
  core::DensePlan& dense = *alone.dense;
  dense.pipeline = 1 + (ends.first ? 0 : 1) + (ends.last ? 0 : 1);
  dense.layers_per_stage.assign(static_cast<std::size_t>(dense.pipeline), layers);
  core::Job one = job;
  one.global_batch = dense.data_ways() * dense.microbatch;
  return core::lower_stage(alone, model, one, ends.first ? 0 : 1);
}

StagePart part_at(const core::Parameters& parameters, std::int64_t first) {
  const std::vector<std::int64_t>& bounds = parameters.layer_bounds;
  const auto after = std::upper_bound(bounds.begin(), bounds.end(), first);
  if (after == bounds.begin()) return {StagePart::Kind::Embedding, 0};
  if (after == bounds.end()) return {StagePart::Kind::Head, 0};
  return {StagePart::Kind::Layer, static_cast<int>(after - bounds.begin()) - 1};
}

std::optional<StagePart> part_of(const std::vector<core::View>& views,
                                 const core::Parameters& parameters, bool values) {
  for (const core::View& view : views) {
    if (view.buffer == parameters.gradients || (values && view.buffer == parameters.values)) {
      return part_at(parameters, view.first);
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
