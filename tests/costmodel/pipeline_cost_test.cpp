#include "costmodel/pipeline_cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "core/pipeline_schedule.h"

namespace orrery::costmodel {
namespace {

using core::PipelineSchedule;
using core::Seconds;

PipelineStages uniform(int p, double forward, double backward, double message) {
  const auto n = static_cast<std::size_t>(p);
  return {.forward = std::vector<Seconds>(n, Seconds(forward)),
          .backward = std::vector<Seconds>(n, Seconds(backward)),
          .message = std::vector<Seconds>(n - 1, Seconds(message))};
}

// Every pass one by one: a pass starts when its stage is free and its message has arrived; messages
// of one channel follow each other.
double replay(PipelineSchedule schedule, const PipelineStages& stages, int microbatches) {
  const int p = static_cast<int>(stages.forward.size());
  struct Done {
    double end = 0.0;
    bool known = false;
  };
  std::map<std::pair<int, bool>, std::vector<Done>> arrival;  // (stage, forward) -> by microbatch
  std::vector<std::vector<core::StagePass>> passes;
  for (int s = 0; s < p; ++s) {
    passes.push_back(core::stage_passes(schedule, p, s, microbatches));
    for (const bool forward : {true, false}) {
      arrival[{s, forward}].resize(static_cast<std::size_t>(microbatches));
      const bool source = forward ? s == 0 : s == p - 1;
      for (Done& done : arrival[{s, forward}]) done.known = source;
    }
  }
  std::vector<double> free(static_cast<std::size_t>(p), 0.0);
  std::vector<std::size_t> next(static_cast<std::size_t>(p), 0);
  std::map<std::pair<int, bool>, double> channel;
  for (bool moved = true; moved;) {
    moved = false;
    for (int s = 0; s < p; ++s) {
      const auto i = static_cast<std::size_t>(s);
      while (next[i] < passes[i].size()) {
        const core::StagePass pass = passes[i][next[i]];
        const auto k = static_cast<std::size_t>(pass.microbatch);
        const Done& input = arrival[{s, pass.forward}][k];
        if (!input.known) break;
        free[i] = std::max(free[i], input.end) +
                  (pass.forward ? stages.forward[i] : stages.backward[i]).value;
        const int to = pass.forward ? s + 1 : s - 1;
        if (to >= 0 && to < p) {
          double& busy = channel[{s, pass.forward}];
          busy = std::max(busy, free[i]) +
                 stages.message[static_cast<std::size_t>(std::min(s, to))].value;
          arrival[{to, pass.forward}][k] = {busy, true};
        }
        ++next[i];
        moved = true;
      }
    }
  }
  return free[0];
}

// (m + p − 1)·(f + b).
TEST(PipelineTime, EqualStagesGiveTheKnownBubble) {
  for (const auto schedule : {PipelineSchedule::GPipe, PipelineSchedule::OneFOneB}) {
    EXPECT_DOUBLE_EQ(pipeline_time(schedule, uniform(4, 1.0, 2.0, 0.0), 8).value, (8 + 3) * 3.0);
    EXPECT_DOUBLE_EQ(pipeline_time(schedule, uniform(1, 1.0, 2.0, 0.0), 8).value, 8 * 3.0);
  }
}

// Two stages and m microbatches of 1F1B: each period holds one pass pair of each stage and a
// message each way, (2·3 + 2·0.5) / 2 = 3.5.
TEST(PipelinePeriod, ExposesMessagesIn1F1B) {
  EXPECT_DOUBLE_EQ(
      pipeline_period(PipelineSchedule::OneFOneB, uniform(2, 1.0, 2.0, 0.5), 100).value, 3.5);
}

TEST(PipelineTime, EqualsTheReplayOfEqualStages) {
  for (const auto schedule : {PipelineSchedule::GPipe, PipelineSchedule::OneFOneB}) {
    for (const int p : {1, 2, 3, 5, 8}) {
      for (const int m : {1, 2, 5, 8, 40}) {
        const PipelineStages stages = uniform(p, 1.0, 2.0, 0.0);
        EXPECT_NEAR(pipeline_time(schedule, stages, m).value, replay(schedule, stages, m), 1e-9)
            << p << " stages, " << m << " microbatches";
      }
    }
  }
}

// Random stages and messages. The closed form is an upper bound of the longest path in 1F1B that
// it meets in the long run: the time per microbatch is exact, the ends within a few passes.
TEST(PipelineTime, IsCloseToTheReplayOfUnequalStages) {
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> unit(0.0, 1.0);
  double worst = 0.0;
  for (int trial = 0; trial < 300; ++trial) {
    const int p = 2 + trial % 7;
    PipelineStages stages = uniform(p, 1.0, 2.0, 0.0);
    for (Seconds& f : stages.forward) f *= 1.0 + 0.3 * unit(random);
    for (Seconds& b : stages.backward) b *= 1.0 + 0.3 * unit(random);
    for (Seconds& c : stages.message) c = Seconds(0.2 * unit(random));
    for (const auto schedule : {PipelineSchedule::GPipe, PipelineSchedule::OneFOneB}) {
      for (const int m : {1, 3, 8, 64}) {
        const double exact = replay(schedule, stages, m);
        worst = std::max(worst, std::abs(pipeline_time(schedule, stages, m).value / exact - 1.0));
      }
      const double period = (replay(schedule, stages, 400) - replay(schedule, stages, 200)) / 200;
      EXPECT_NEAR(pipeline_period(schedule, stages, 400).value / period, 1.0, 1e-3);
    }
  }
  EXPECT_LT(worst, 0.06);
}

}  // namespace
}  // namespace orrery::costmodel
