#include "core/trace/trace_comparison.h"

#include <gtest/gtest.h>

#include "tests/core/pipeline_trace.h"

namespace orrery::core {
namespace {

// Per rank and step: predicted 2 forwards of 1 s and 2 backwards of 2 s; measured 2 of 1.5 s and 2
// of 2 s over two steps. The forward's error, 2 - 3 = -1 s, comes first.
TEST(TraceComparison, LargestErrorFirst) {
  const Trace predicted = pipeline_trace({});
  const Trace measured = pipeline_trace({.steps = 2, .forward = 1.5, .simulated = false});
  const auto rows = compare_operations(predicted, measured);
  ASSERT_GE(rows.size(), 2u);
  EXPECT_EQ(rows[0].kind, SpanKind::Forward);
  EXPECT_EQ(rows[0].operation, "linear");
  EXPECT_DOUBLE_EQ(rows[0].predicted.value, 2.0);
  EXPECT_DOUBLE_EQ(rows[0].measured.value, 3.0);
  EXPECT_DOUBLE_EQ(rows[0].measured_count, 2.0);
  EXPECT_DOUBLE_EQ(rows[0].error().value, -1.0);
  for (const auto& row : rows) {
    if (row.kind == SpanKind::Backward) {
      EXPECT_DOUBLE_EQ(row.error().value, 0.0);
    }
  }
}

// A run lists all its steps but keeps the spans of some: means are over those.
TEST(TraceComparison, CountsOnlyStepsWithSpans) {
  Trace measured = pipeline_trace({.steps = 2, .simulated = false});
  for (int more = 0; more < 6; ++more) measured.steps.insert(measured.steps.begin(), StepInfo{});
  for (Span& span : measured.spans) span.instruction.step += 6;
  for (const auto& row : compare_operations(pipeline_trace({}), measured)) {
    EXPECT_DOUBLE_EQ(row.error().value, 0.0) << row.operation;
  }
}

// Only one of the traces recomputes: the row exists, with nothing on the other side.
TEST(TraceComparison, KeepsWhatOnlyOneSideHas) {
  Trace predicted = pipeline_trace({});
  Trace measured = predicted;
  for (Span& span : measured.spans) {
    if (span.kind == SpanKind::Forward) span.kind = SpanKind::Recompute;
  }
  double only_predicted = 0;
  double only_measured = 0;
  for (const auto& row : compare_operations(predicted, measured)) {
    if (row.measured_count == 0) only_predicted += row.predicted.value;
    if (row.predicted_count == 0) only_measured += row.measured.value;
  }
  EXPECT_DOUBLE_EQ(only_predicted, 2.0);
  EXPECT_DOUBLE_EQ(only_measured, 2.0);
}

// Steps of 9 s each (see gap_test.cpp).
TEST(TraceComparison, MeanStep) {
  EXPECT_DOUBLE_EQ(mean_step(pipeline_trace({.steps = 3})).value, 9.0);
  EXPECT_EQ(mean_step(Trace{}), Seconds(0));
}

}  // namespace
}  // namespace orrery::core
