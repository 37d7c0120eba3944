#include "core/lowering/pipeline_schedule.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/lowering/zero_bubble.h"

namespace orrery::core {
namespace {

using Passes = std::vector<StagePass>;

Passes gpipe(int microbatches) {
  Passes passes;
  for (int m = 0; m < microbatches; ++m) passes.push_back({PassKind::Forward, m});
  for (int m = microbatches - 1; m >= 0; --m) passes.push_back({PassKind::Backward, m});
  return passes;
}

/// `warmup` forwards, then one forward and one backward in turn, then the remaining backwards; each
/// named by its place among the forwards or the backwards.
template <class Forward, class Backward>
void one_forward_one_backward(int warmup, int total, Forward forward, Backward backward) {
  int done = 0;
  while (done < std::min(warmup, total)) forward(done++);
  int undone = 0;
  while (done < total) {
    forward(done++);
    backward(undone++);
  }
  while (undone < total) backward(undone++);
}

Passes one_f_one_b(int stages, int stage, int microbatches) {
  Passes passes;
  one_forward_one_backward(
      stages - 1 - stage, microbatches,
      [&](int i) {
        passes.push_back({PassKind::Forward, i});
      },
      [&](int i) {
        passes.push_back({PassKind::Backward, i});
      });
  return passes;
}

/// The i-th forward goes through chunk i / p mod v: p microbatches at a time through each chunk.
Passes interleaved(const PipelineShape& shape, int stage) {
  const int p = shape.stages;
  const int v = shape.chunks;
  ORRERY_CHECK(shape.microbatches % p == 0,
               "interleaved microbatches come in groups of the stages");
  const auto pass = [&](PassKind kind, int i) {
    const int chunk = i / p % v;
    return StagePass{kind, i / (p * v) * p + i % p,
                     kind == PassKind::Forward ? chunk : v - 1 - chunk};
  };
  Passes passes;
  one_forward_one_backward(
      2 * (p - 1 - stage) + (v - 1) * p, shape.microbatches * v,
      [&](int i) { passes.push_back(pass(PassKind::Forward, i)); },
      [&](int i) { passes.push_back(pass(PassKind::Backward, i)); });
  return passes;
}

Passes zero_bubble_h1(int stages, int stage, int microbatches) {
  Passes passes;
  int weights = 0;
  one_forward_one_backward(
      stages - 1 - stage, microbatches,
      [&](int i) {
        passes.push_back({PassKind::Forward, i});
      },
      [&](int i) {
        passes.push_back({PassKind::InputGrad, i});
        if (i >= stage) passes.push_back({PassKind::WeightGrad, weights++});
      });
  while (weights < microbatches) passes.push_back({PassKind::WeightGrad, weights++});
  return passes;
}

Passes passes_of_stage(const PipelineShape& shape, int stage) {
  switch (shape.schedule) {
    case PipelineSchedule::GPipe:
      return gpipe(shape.microbatches);
    case PipelineSchedule::OneFOneB:
      return one_f_one_b(shape.stages, stage, shape.microbatches);
    case PipelineSchedule::Interleaved:
      return interleaved(shape, stage);
    case PipelineSchedule::ZeroBubbleH1:
      return zero_bubble_h1(shape.stages, stage, shape.microbatches);
    case PipelineSchedule::ZeroBubble1p:
    case PipelineSchedule::ZeroBubble2p:
      break;
  }
  ORRERY_CHECK(false, "this schedule is computed for all stages at once");
}

void check_shape(const PipelineShape& shape) {
  ORRERY_CHECK(shape.stages >= 1 && shape.chunks >= 1 && shape.microbatches >= 1,
               "stages, chunks and microbatches must exist");
}

}  // namespace

PipelineShape pipeline_shape(const DensePlan& plan, int microbatches) {
  return {plan.schedule, plan.pipeline, plan.virtual_stages, microbatches, plan.pass_times};
}

bool splits_backward(PipelineSchedule schedule) {
  switch (schedule) {
    case PipelineSchedule::GPipe:
    case PipelineSchedule::OneFOneB:
    case PipelineSchedule::Interleaved:
      return false;
    case PipelineSchedule::ZeroBubbleH1:
    case PipelineSchedule::ZeroBubble1p:
    case PipelineSchedule::ZeroBubble2p:
      return true;
  }
  ORRERY_CHECK(false, "unknown PipelineSchedule");
}

bool computed_from_durations(PipelineSchedule schedule) {
  return schedule == PipelineSchedule::ZeroBubble1p || schedule == PipelineSchedule::ZeroBubble2p;
}

std::vector<std::vector<StagePass>> pipeline_passes(const PipelineShape& shape) {
  check_shape(shape);
  if (computed_from_durations(shape.schedule)) {
    ORRERY_CHECK(shape.times.has_value(), "a schedule without the durations it is computed from");
    const bool twice = shape.schedule == PipelineSchedule::ZeroBubble2p;
    return zero_bubble_passes(shape.stages, shape.microbatches, *shape.times,
                              twice ? 2 * shape.stages : shape.stages);
  }
  std::vector<Passes> passes;
  for (int s = 0; s < shape.stages; ++s) passes.push_back(passes_of_stage(shape, s));
  return passes;
}

std::vector<StagePass> stage_passes(const PipelineShape& shape, int stage) {
  check_shape(shape);
  ORRERY_CHECK(stage >= 0 && stage < shape.stages, "the stage must exist");
  if (!computed_from_durations(shape.schedule)) return passes_of_stage(shape, stage);
  return std::move(pipeline_passes(shape)[static_cast<std::size_t>(stage)]);
}

}  // namespace orrery::core
