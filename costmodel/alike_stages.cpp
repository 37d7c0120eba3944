#include "costmodel/alike_stages.h"

namespace orrery::costmodel {
namespace {

StagePlace place_of(int index, int count, int device) {
  return {index == 0, index == count - 1, device};
}

void add_chunks(const core::DensePlan& plan, const std::vector<int>& devices, StageKinds& kinds) {
  const int count = plan.pipeline * plan.virtual_stages;
  for (int c = 0; c < count; ++c) {
    const AlikeChunks chunk{
        place_of(c, count, devices[static_cast<std::size_t>(c % plan.pipeline)]),
        plan.layers_per_stage[static_cast<std::size_t>(c)]};
    kinds.kind_of_chunk.push_back(kind_index(
        kinds.chunks,
        [&](const AlikeChunks& k) { return k.ends == chunk.ends && k.layers == chunk.layers; },
        [&] { return chunk; }));
  }
}

void add_stages(const core::DensePlan& plan, const std::vector<int>& devices, StageKinds& kinds) {
  for (int s = 0; s < plan.pipeline; ++s) {
    AlikeStages stage{.ends = place_of(s, plan.pipeline, devices[static_cast<std::size_t>(s)]),
                      .chunks = {},
                      .first = s};
    for (auto c = static_cast<std::size_t>(s); c < kinds.kind_of_chunk.size();
         c += static_cast<std::size_t>(plan.pipeline)) {
      stage.chunks.push_back(kinds.kind_of_chunk[c]);
      stage.layers += kinds.chunks[stage.chunks.back()].layers;
    }
    kinds.kind_of_stage.push_back(kind_index(
        kinds.stages,
        [&](const AlikeStages& k) { return k.ends == stage.ends && k.chunks == stage.chunks; },
        [&] { return stage; }));
  }
}

}  // namespace

StageKinds stage_kinds(const core::DensePlan& plan, const std::vector<int>& devices) {
  StageKinds kinds;
  add_chunks(plan, devices, kinds);
  add_stages(plan, devices, kinds);
  return kinds;
}

}  // namespace orrery::costmodel
