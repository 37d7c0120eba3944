#include "study/predicted_measured.h"

#include <gtest/gtest.h>

namespace {

using namespace orrery;
using namespace orrery::core::literals;

core::Span span(int name, int step, core::Seconds start, core::Seconds transfer,
                core::Seconds end) {
  core::Span s;
  s.name = name;
  s.instruction.step = step;
  s.start = start;
  s.transfer = transfer;
  s.end = end;
  return s;
}

core::Trace one_lane(std::vector<core::Rank> also = {}) {
  core::Trace trace;
  trace.lanes = {{core::Rank(0), core::Stream::Compute, std::move(also)}};
  trace.names = {"linear a", "all_reduce b", "linear c"};
  return trace;
}

// Measured: the first step is not counted; linear takes 1 + 2 = 3 s in the second; of the
// all-reduce's 5 s, 4 were waiting. Predicted: one lane that stands for 2 ranks, 2 · 2 s of linear.
TEST(PredictedMeasured, SumsTheTimesOfEachOperationInAStep) {
  core::Trace measured = one_lane();
  measured.spans = {span(0, 0, 0.0_s, 0.0_s, 50.0_s), span(0, 1, 60.0_s, 60.0_s, 61.0_s),
                    span(2, 1, 61.0_s, 61.0_s, 63.0_s), span(1, 1, 63.0_s, 67.0_s, 68.0_s)};
  measured.steps = {{0.0_s, 50.0_s, {}}, {60.0_s, 68.0_s, {}}};
  core::Trace predicted = one_lane({core::Rank(1)});
  predicted.spans = {span(0, 0, 0.0_s, 0.0_s, 2.0_s)};
  predicted.steps = {{0.0_s, 6.0_s, {}}};

  const study::Comparison comparison = study::compare(predicted, measured);
  EXPECT_EQ(comparison.measured_step, 8.0_s);
  EXPECT_EQ(comparison.predicted_step, 6.0_s);
  EXPECT_DOUBLE_EQ(comparison.error(), -0.25);
  ASSERT_EQ(comparison.operations.size(), 2U);
  EXPECT_EQ(comparison.operations[0].operation, "linear");
  EXPECT_EQ(comparison.operations[0].executions, 2);
  EXPECT_EQ(comparison.operations[0].measured, 3.0_s);
  EXPECT_EQ(comparison.operations[0].predicted, 4.0_s);
  EXPECT_EQ(comparison.operations[1].operation, "all_reduce");
  EXPECT_EQ(comparison.operations[1].measured, 1.0_s);
}

TEST(PredictedMeasured, TakesTheFastestStepAfterTheFirst) {
  core::Trace trace;
  trace.steps = {{0.0_s, 1.0_s, {}}, {1.0_s, 4.0_s, {}}, {4.0_s, 6.0_s, {}}};
  EXPECT_EQ(study::fastest_step(trace), 2.0_s);
  trace.steps.resize(1);
  EXPECT_EQ(study::fastest_step(trace), 1.0_s);
}

}  // namespace
