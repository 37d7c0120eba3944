#include "core/lowering/pipeline_schedule.h"

#include <algorithm>

#include "core/error.h"

namespace orrery::core {
namespace {

std::vector<StagePass> gpipe(int microbatches) {
  std::vector<StagePass> passes;
  for (int m = 0; m < microbatches; ++m) passes.push_back({true, m});
  for (int m = microbatches - 1; m >= 0; --m) passes.push_back({false, m});
  return passes;
}

std::vector<StagePass> one_f_one_b(int stages, int stage, int microbatches) {
  const int warmup = std::min(stages - 1 - stage, microbatches);
  std::vector<StagePass> passes;
  int forward = 0;
  int backward = 0;
  while (forward < warmup) passes.push_back({true, forward++});
  while (forward < microbatches) {
    passes.push_back({true, forward++});
    passes.push_back({false, backward++});
  }
  while (backward < microbatches) passes.push_back({false, backward++});
  return passes;
}

}  // namespace

std::vector<StagePass> stage_passes(PipelineSchedule schedule, int stages, int stage,
                                    int microbatches) {
  ORRERY_CHECK(stages >= 1 && stage >= 0 && stage < stages && microbatches >= 1,
               "stage and microbatches must exist");
  if (schedule == PipelineSchedule::GPipe) return gpipe(microbatches);
  ORRERY_CHECK(schedule == PipelineSchedule::OneFOneB, "schedule without an order of passes");
  return one_f_one_b(stages, stage, microbatches);
}

int microbatches_in_flight(PipelineSchedule schedule, int stages, int stage, int microbatches) {
  if (schedule == PipelineSchedule::GPipe) return microbatches;
  return std::min(stages - stage, microbatches);
}

}  // namespace orrery::core
