#include "core/job.h"

#include <gtest/gtest.h>

#include <cmath>

namespace orrery::core {
namespace {

Job scheduled() {
  Job job;
  job.steps = 20;
  job.optimizer.learning_rate = 1e-3;
  job.schedule = LearningRateSchedule{4, 1e-4};
  return job;
}

TEST(LearningRate, IsConstantWithoutASchedule) {
  Job job = scheduled();
  job.schedule.reset();
  EXPECT_DOUBLE_EQ(learning_rate(job, 0), 1e-3);
  EXPECT_DOUBLE_EQ(learning_rate(job, 19), 1e-3);
}

// peak·(s+1)/warmup: a quarter of the peak at step 0, the peak at step 3.
TEST(LearningRate, WarmsUpLinearly) {
  EXPECT_DOUBLE_EQ(learning_rate(scheduled(), 0), 0.25e-3);
  EXPECT_DOUBLE_EQ(learning_rate(scheduled(), 3), 1e-3);
}

// final + ½(peak−final)(1+cos π(s−4)/16): the peak at s = 4, the mean at s = 12.
TEST(LearningRate, FallsAlongACosine) {
  EXPECT_DOUBLE_EQ(learning_rate(scheduled(), 4), 1e-3);
  EXPECT_DOUBLE_EQ(learning_rate(scheduled(), 12), 0.55e-3);
  EXPECT_DOUBLE_EQ(learning_rate(scheduled(), 19),
                   1e-4 + 0.5 * 9e-4 * (1.0 + std::cos(std::acos(-1.0) * 15.0 / 16.0)));
}

TEST(LearningRate, StaysAtTheFinalRateAfterTheLastStep) {
  EXPECT_DOUBLE_EQ(learning_rate(scheduled(), 20), 1e-4);
  EXPECT_DOUBLE_EQ(learning_rate(scheduled(), 1000), 1e-4);
}

// A warm-up as long as the run never reaches the cosine.
TEST(LearningRate, MayWarmUpForTheWholeRun) {
  Job job = scheduled();
  job.schedule->warmup_steps = 20;
  EXPECT_DOUBLE_EQ(learning_rate(job, 19), 1e-3);
  EXPECT_DOUBLE_EQ(learning_rate(job, 20), 1e-4);
}

}  // namespace
}  // namespace orrery::core
