#include "costmodel/pipeline_cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "core/lowering/pipeline_schedule.h"
#include "tests/core/pass_timing.h"

namespace orrery::costmodel {
namespace {

using core::PipelineSchedule;
using core::Seconds;

PipelineStages uniform(int p, double forward, double backward, double message) {
  const auto n = static_cast<std::size_t>(p);
  return {.begin = std::vector<Seconds>(n, Seconds(0)),
          .forward = std::vector<Seconds>(n, Seconds(forward)),
          .backward = std::vector<Seconds>(n, Seconds(backward)),
          .ahead = std::vector<Seconds>(n, Seconds(0)),
          .message = std::vector<Seconds>(n - 1, Seconds(message))};
}

double time_of(PipelineSchedule schedule, const PipelineStages& stages, int microbatches) {
  const int p = static_cast<int>(stages.begin.size());
  return pipeline_finish({schedule, p, 1, microbatches}, stages).front().value;
}

// Every pass of every microbatch: a pass starts when its stage is free and its message has arrived;
// messages of one channel follow each other.
double replay(PipelineSchedule schedule, const PipelineStages& stages, int microbatches) {
  const int p = static_cast<int>(stages.forward.size());
  struct Done {
    double end = 0.0;
    bool known = false;
  };
  std::map<std::pair<int, bool>, std::vector<Done>> arrival;  // (stage, forward) -> by microbatch
  const auto passes = core::pipeline_passes({schedule, p, 1, microbatches});
  for (int s = 0; s < p; ++s) {
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
        const bool forward = pass.kind == core::PassKind::Forward;
        const Done& input = arrival[{s, forward}][k];
        if (!input.known) break;
        free[i] =
            std::max(free[i], input.end) + (forward ? stages.forward[i] : stages.backward[i]).value;
        const int to = forward ? s + 1 : s - 1;
        if (to >= 0 && to < p) {
          double& busy = channel[{s, forward}];
          busy = std::max(busy, free[i]) +
                 stages.message[static_cast<std::size_t>(std::min(s, to))].value;
          arrival[{to, forward}][k] = {busy, true};
        }
        ++next[i];
        moved = true;
      }
    }
  }
  return free[0];
}

// (m + p − 1)·(f + b).
TEST(PipelineFinish, EqualStagesGiveTheKnownBubble) {
  for (const auto schedule : {PipelineSchedule::GPipe, PipelineSchedule::OneFOneB}) {
    for (const int p : {1, 2, 3, 5, 8}) {
      for (const int m : {1, 2, 5, 8, 40, 1000}) {
        EXPECT_NEAR(time_of(schedule, uniform(p, 1.0, 2.0, 0.0), m), (m + p - 1) * 3.0, 1e-6)
            << p << " stages, " << m << " microbatches";
      }
    }
  }
}

TEST(PipelineFinish, BeginsAfterTheBegin) {
  PipelineStages stages = uniform(3, 1.0, 2.0, 0.0);
  stages.begin = {Seconds(0.25), Seconds(0.5), Seconds(0.0)};
  // Stages 1 and 2 begin while they wait for the first activation.
  EXPECT_DOUBLE_EQ(time_of(PipelineSchedule::OneFOneB, stages, 4), 0.25 + 6 * 3.0);
}

// Unequal stages, free messages: the plain replay, also where the line is extended.
TEST(PipelineFinish, EqualsTheReplayOfUnequalStages) {
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> unit(0.0, 1.0);
  for (int trial = 0; trial < 200; ++trial) {
    const int p = 2 + trial % 7;
    PipelineStages stages = uniform(p, 1.0, 2.0, 0.0);
    for (Seconds& f : stages.forward) f *= 1.0 + 0.3 * unit(random);
    for (Seconds& b : stages.backward) b *= 1.0 + 0.3 * unit(random);
    for (const auto schedule : {PipelineSchedule::GPipe, PipelineSchedule::OneFOneB}) {
      for (const int m : {1, 2, 8, 90, 3000}) {
        EXPECT_NEAR(time_of(schedule, stages, m) / replay(schedule, stages, m), 1.0,
                    m <= 90 ? 1e-9 : 5e-3)
            << p << " stages, " << m << " microbatches";
      }
    }
  }
}

// With messages that take part of a pass, 1F1B grows by the largest mean of a cycle per microbatch:
// max over s ≤ e of (Σ (f + b) + 2·Σ c) / (e − s + 1).
TEST(PipelineFinish, GrowsByTheLargestCycleMeanIn1F1B) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> unit(0.0, 1.0);
  for (int trial = 0; trial < 100; ++trial) {
    const std::size_t p = 2 + static_cast<std::size_t>(trial) % 6;
    PipelineStages stages = uniform(static_cast<int>(p), 1.0, 2.0, 0.0);
    for (Seconds& f : stages.forward) f *= 1.0 + 0.3 * unit(random);
    for (Seconds& b : stages.backward) b *= 1.0 + 0.3 * unit(random);
    for (Seconds& c : stages.message) c = Seconds(0.2 * unit(random));
    double period = 0.0;
    for (std::size_t s = 0; s < p; ++s) {
      double weight = 0.0;
      for (std::size_t e = s; e < p; ++e) {
        if (e > s) weight += 2 * stages.message[e - 1].value;
        weight += (stages.forward[e] + stages.backward[e]).value;
        period = std::max(period, weight / static_cast<double>(e - s + 1));
      }
    }
    const double grown = time_of(PipelineSchedule::OneFOneB, stages, 400) -
                         time_of(PipelineSchedule::OneFOneB, stages, 200);
    EXPECT_NEAR(grown / 200 / period, 1.0, 2e-3);
  }
}

PipelineStages split(int p, const core::PassTimes& times) {
  const auto n = static_cast<std::size_t>(p);
  PipelineStages stages =
      uniform(p, times.forward.value, times.input_grad.value, times.message.value);
  stages.weight_grad.assign(n, times.weight_grad);
  return stages;
}

// Chunks of 1/v of a stage: m·(F + B) + (p − 1)·(F + B)/v.
TEST(PipelineFinish, InterleavedDividesTheBubble) {
  for (const int p : {2, 4, 8}) {
    for (const int v : {2, 3}) {
      for (const int m : {p, 3 * p, 1000 * p}) {
        const PipelineStages stages = uniform(p * v, 1.0, 2.0, 0.0);
        EXPECT_NEAR(
            stage_finish(pipeline_finish({PipelineSchedule::Interleaved, p, v, m}, stages), p)
                .front()
                .value,
            (m * v + p - 1) * 3.0, 1e-6)
            << p << ' ' << v << ' ' << m;
      }
    }
  }
}

// (p − 1)·(F + B − W) beside the work, also beyond what is replayed.
TEST(PipelineFinish, ZeroBubbleH1IsTheClosedForm) {
  const core::PassTimes times{Seconds(1.0), Seconds(1.25), Seconds(0.75), Seconds(0)};
  for (const int p : {2, 4, 8}) {
    for (const int m : {p, 3 * p, 5000}) {
      const auto finish =
          pipeline_finish({PipelineSchedule::ZeroBubbleH1, p, 1, m}, split(p, times));
      EXPECT_NEAR(std::max_element(finish.begin(), finish.end())->value, m * 3.0 + (p - 1) * 1.5,
                  1e-6);
    }
  }
}

// Bounding the messages costs nothing in schedules that were made without bounds, and they grow along
// a line: the published durations of a 6.2B model on 8 stages (data/validation/zero_bubble_rates.csv).
TEST(PipelineFinish, BoundedMessagesDelayNoComputedSchedule) {
  const core::PassTimes times{Seconds(29.718), Seconds(29.444), Seconds(19.927), Seconds(0.527),
                              0.43};
  for (const auto schedule : {PipelineSchedule::ZeroBubble1p, PipelineSchedule::ZeroBubble2p}) {
    for (const int m : {8, 24, 64, 1500}) {
      const core::PipelineShape shape{schedule, 8, 1, m, times};
      const auto free = core::timing_of(core::pipeline_passes(shape), 1, times).value();
      const auto finish = pipeline_finish(shape, split(8, times));
      const double bounded = std::max_element(finish.begin(), finish.end())->value;
      EXPECT_NEAR(bounded / free.all, 1.0, 1e-6) << m;
    }
  }
}

// Two stages, one microbatch: F0 c F1 B1 c B0 with the first 0.5 of B0's 2 done ahead:
// 1 + 0.1 + 1 + 2 + 0.1 + 1.5.
TEST(PipelineFinish, RecomputesWhileItWaits) {
  PipelineStages stages = uniform(2, 1.0, 2.0, 0.1);
  stages.ahead[0] = Seconds(0.5);
  EXPECT_DOUBLE_EQ(time_of(PipelineSchedule::OneFOneB, stages, 1), 5.7);
}

// 1F1B in two stages: a message of 10 is longer than any pass, so that each microbatch waits for
// one each way beside one pass pair of each stage: (2·3 + 2·10) / 2 = 13 per microbatch.
TEST(PipelineFinish, LongMessagesSetThePace) {
  const PipelineStages stages = uniform(2, 1.0, 2.0, 10.0);
  const double grown = time_of(PipelineSchedule::OneFOneB, stages, 300) -
                       time_of(PipelineSchedule::OneFOneB, stages, 200);
  EXPECT_NEAR(grown / 100, 13.0, 1e-6);
}

}  // namespace
}  // namespace orrery::costmodel
