#include "core/lowering/pipeline_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "tests/core/pass_timing.h"

namespace orrery::core {
namespace {

using Passes = std::vector<std::vector<StagePass>>;

const PassTimes kTimes{Seconds(1.0), Seconds(1.25), Seconds(0.75), Seconds(0.0), 0.5};

std::vector<PipelineShape> all_shapes() {
  std::vector<PipelineShape> shapes;
  for (const int p : {1, 2, 3, 4, 8}) {
    for (const int m : {1, 2, 3, 4, 7, 8, 16, 24}) {
      for (const auto schedule :
           {PipelineSchedule::GPipe, PipelineSchedule::OneFOneB, PipelineSchedule::ZeroBubbleH1}) {
        shapes.push_back({schedule, p, 1, m});
      }
      for (const auto schedule : {PipelineSchedule::ZeroBubble1p, PipelineSchedule::ZeroBubble2p}) {
        shapes.push_back({schedule, p, 1, m, kTimes});
      }
      if (m % p != 0 || p == 1) continue;
      for (const int v : {2, 3, 4}) shapes.push_back({PipelineSchedule::Interleaved, p, v, m});
    }
  }
  return shapes;
}

/// Most microbatches (of all chunks) between forward and the end of what the schedule does last with
/// them, on one stage.
int most_in_flight(const std::vector<StagePass>& passes, bool split) {
  int now = 0;
  int most = 0;
  for (const StagePass& pass : passes) {
    if (pass.kind == PassKind::Forward) most = std::max(most, ++now);
    if (pass.kind == (split ? PassKind::WeightGrad : PassKind::Backward)) --now;
  }
  return most;
}

// On each stage each microbatch passes each chunk once each way: F, then B, then W where it is split.
TEST(PipelineSchedule, RunsEveryPassOnceAndInOrder) {
  for (const PipelineShape& shape : all_shapes()) {
    const bool split = splits_backward(shape.schedule);
    for (const auto& passes : pipeline_passes(shape)) {
      std::map<std::pair<int, int>, std::vector<PassKind>> kinds;  // By microbatch and chunk.
      for (const StagePass& pass : passes) {
        kinds[{pass.microbatch, pass.chunk}].push_back(pass.kind);
      }
      EXPECT_EQ(kinds.size(), static_cast<std::size_t>(shape.microbatches * shape.chunks));
      const std::vector<PassKind> expected =
          split ? std::vector{PassKind::Forward, PassKind::InputGrad, PassKind::WeightGrad}
                : std::vector{PassKind::Forward, PassKind::Backward};
      for (const auto& [key, found] : kinds) EXPECT_EQ(found, expected);
    }
  }
}

// No stage waits for a pass that waits for it, and messages between two stages keep their order.
TEST(PipelineSchedule, NobodyWaitsInACircle) {
  for (const PipelineShape& shape : all_shapes()) {
    EXPECT_TRUE(timing_of(pipeline_passes(shape), shape.chunks, kTimes).has_value())
        << schedule_name(shape.schedule) << ' ' << shape.stages << ' ' << shape.microbatches;
  }
}

// 1F1B: min(p − s, m). ZB-H1 and ZB-1p: p between forward and weight gradient (with kept = 1), which
// is 1F1B's first stage. ZB-2p: 2p. Interleaved: 2(p−1−s) + (v−1)·p + 1 chunks.
TEST(PipelineSchedule, HoldsNoMoreThanItMay) {
  PassTimes times = kTimes;
  times.kept = 1.0;
  for (PipelineShape shape : all_shapes()) {
    if (shape.times) shape.times = times;
    const int p = shape.stages;
    const int m = shape.microbatches;
    const auto passes = pipeline_passes(shape);
    for (int s = 0; s < p; ++s) {
      const int most =
          most_in_flight(passes[static_cast<std::size_t>(s)], splits_backward(shape.schedule));
      switch (shape.schedule) {
        case PipelineSchedule::GPipe:
          EXPECT_EQ(most, m);
          break;
        case PipelineSchedule::OneFOneB:
          EXPECT_EQ(most, std::min(p - s, m));
          break;
        case PipelineSchedule::Interleaved:
          EXPECT_EQ(most, std::min(2 * (p - 1 - s) + (shape.chunks - 1) * p + 1, m * shape.chunks));
          break;
        case PipelineSchedule::ZeroBubbleH1:
          EXPECT_EQ(most, std::min(p, m));
          break;
        case PipelineSchedule::ZeroBubble1p:
          EXPECT_LE(most, p);
          break;
        case PipelineSchedule::ZeroBubble2p:
          EXPECT_LE(most, 2 * p);
          break;
      }
    }
  }
}

double idle(const PipelineShape& shape, const PassTimes& times) {
  const PassTiming timing = timing_of(pipeline_passes(shape), shape.chunks, times).value();
  const double work = shape.microbatches * shape.chunks *
                      (times.forward + times.input_grad + times.weight_grad).value;
  return 1 - work / timing.longest_stage;
}

// (p−1)/(m+p−1) for GPipe and 1F1B; (p−1)/(v·m+p−1) interleaved.
TEST(PipelineSchedule, LeavesTheKnownShareIdle) {
  for (const PipelineShape& shape : all_shapes()) {
    const double p = shape.stages;
    const double m = shape.microbatches;
    if (splits_backward(shape.schedule)) continue;
    EXPECT_NEAR(idle(shape, kTimes), (p - 1) / (shape.chunks * m + p - 1), 1e-9)
        << schedule_name(shape.schedule) << ' ' << p << ' ' << m;
  }
}

// ZB-H1 idles (p−1)·(F + B − W) where m ≥ p, as long as W is no longer than B.
TEST(PipelineSchedule, ZeroBubbleH1LeavesAThirdOf1F1B) {
  for (const double w : {0.25, 0.5, 0.75, 1.0}) {
    PassTimes times = kTimes;
    times.weight_grad = Seconds(w);
    for (const int p : {2, 4, 8}) {
      for (const int m : {p, 2 * p + 1, 6 * p}) {
        const double work = m * (2.25 + w);
        const double bubble = (p - 1) * (2.25 - w);
        EXPECT_NEAR(idle({PipelineSchedule::ZeroBubbleH1, p, 1, m}, times),
                    bubble / (work + bubble), 1e-9)
            << p << ' ' << m << ' ' << w;
      }
    }
  }
}

}  // namespace
}  // namespace orrery::core
