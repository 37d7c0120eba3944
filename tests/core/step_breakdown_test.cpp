#include "core/trace/step_breakdown.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/core/pipeline_trace.h"

namespace orrery::core {
namespace {

Seconds sum_of_parts(const StepBreakdown& b) {
  Seconds sum = b.total_bubble() + b.other;
  for (Seconds part : b.by_kind) sum += part;
  return sum;
}

Span span(std::int32_t lane, SpanKind kind, double start, double transfer, double end) {
  return {lane, 0, kind, {}, {}, Seconds(start), Seconds(transfer), Seconds(end), Bytes(0)};
}

// One rank, step [0, 10]:
//   compute  F [1,4]           B [5,8]
//   tensor         [4,5]
//   data                         [6 | 7, 9]     waits until 7, moves data [7,9]
// compute 6, communication 3, overlapped [7,8] = 1; exposed tensor 1, data 1; idle outside the
// window [1,8]: [0,1] and [9,10].
TEST(StepBreakdown, CountsEveryMomentOnce) {
  Trace trace;
  trace.names = {"x"};
  trace.steps = {{Seconds(0), Seconds(10), std::nullopt}};
  trace.lanes = {
      {Rank(0), Stream::Compute, {}}, {Rank(0), Stream::Tensor, {}}, {Rank(0), Stream::Data, {}}};
  trace.spans = {span(0, SpanKind::Forward, 1, 1, 4), span(0, SpanKind::Backward, 5, 5, 8),
                 span(1, SpanKind::TensorCommunication, 4, 4, 5),
                 span(2, SpanKind::DataCommunication, 6, 7, 9)};
  const StepBreakdown b = step_breakdowns(trace, 0).front();
  EXPECT_EQ(b.length, Seconds(10));
  EXPECT_EQ(b.compute, Seconds(6));
  EXPECT_EQ(b.communication, Seconds(3));
  EXPECT_EQ(b.overlapped, Seconds(1));
  EXPECT_DOUBLE_EQ(b.overlap(), 1.0 / 3.0);
  EXPECT_EQ(b.device_busy, Seconds(8));
  EXPECT_EQ(b.of(SpanKind::TensorCommunication), Seconds(1));
  EXPECT_EQ(b.of(SpanKind::DataCommunication), Seconds(1));
  EXPECT_EQ(b.exposed_communication(), Seconds(2));
  EXPECT_EQ(b.total_bubble(), Seconds(0));
  EXPECT_EQ(b.other, Seconds(2));
  EXPECT_EQ(b.stream_busy[static_cast<std::size_t>(Stream::Data)], Seconds(2));
  EXPECT_EQ(sum_of_parts(b), b.length);
}

// 1F1B with p = 4, m = 8, F = 1, B = 2 and free messages: bubble (p - 1)(F + B) of
// (m + p - 1)(F + B), 9 of 33 s.
TEST(StepBreakdown, BubbleOfOneForwardOneBackward) {
  for (const StepBreakdown& b :
       step_breakdowns(pipeline_trace({.stages = 4, .microbatches = 8}), 0)) {
    EXPECT_DOUBLE_EQ(b.total_bubble() / b.length, 9.0 / 33.0);
    EXPECT_DOUBLE_EQ(b.of(SpanKind::Forward).value, 8);
    EXPECT_DOUBLE_EQ(b.of(SpanKind::Backward).value, 16);
  }
}

TEST(StepBreakdown, PartsSumToTheStepWhateverHappens) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    const Trace trace = pipeline_trace({.stages = 3,
                                        .microbatches = 5,
                                        .ways = 2,
                                        .layers = 2,
                                        .steps = 2,
                                        .message = 0.1,
                                        .tensor = 0.05,
                                        .all_reduce = 0.7,
                                        .optimizer = 0.3,
                                        .jitter = 0.3,
                                        .seed = seed});
    for (int step : {0, 1}) {
      for (const StepBreakdown& b : step_breakdowns(trace, step)) {
        EXPECT_NEAR(sum_of_parts(b) / b.length, 1.0, 1e-12);
      }
    }
  }
}

// Rank 0 stands for two more: its 3 s weigh 3, rank 3's 7 s weigh 1: (9 + 7) / 4 = 4 s.
TEST(StepBreakdown, TheMeanWeighsTheRanksStoodFor) {
  Trace trace;
  trace.names = {"x"};
  trace.steps = {{Seconds(0), Seconds(10), std::nullopt}};
  trace.lanes = {{Rank(0), Stream::Compute, {Rank(1), Rank(2)}}, {Rank(3), Stream::Compute, {}}};
  trace.spans = {span(0, SpanKind::Forward, 0, 0, 3), span(1, SpanKind::Forward, 0, 0, 7)};
  const StepBreakdown mean = mean_breakdown(trace, step_breakdowns(trace, 0));
  EXPECT_DOUBLE_EQ(mean.of(SpanKind::Forward).value, 4);
  EXPECT_DOUBLE_EQ(mean.length.value, 10);
}

}  // namespace
}  // namespace orrery::core
