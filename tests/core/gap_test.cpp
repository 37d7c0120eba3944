#include "core/trace/gap.h"

#include <gtest/gtest.h>

#include "tests/core/pipeline_trace.h"

namespace orrery::core {
namespace {

std::vector<Gap> gaps_of(const std::vector<Gap>& gaps, int rank) {
  std::vector<Gap> mine;
  for (const Gap& gap : gaps) {
    if (gap.rank == Rank(rank)) mine.push_back(gap);
  }
  return mine;
}

Seconds total(const std::vector<Gap>& gaps) {
  Seconds sum;
  for (const Gap& gap : gaps) sum += gap.when.length();
  return sum;
}

// Two stages, two microbatches, F = 1 s, B = 2 s, messages free:
//   rank 0  F0 F1 w  w  B0 B0 d  B1 B1        gaps [2,4] before B0, [6,7] before B1
//   rank 1  w  F0 B0 B0 F1 B1 B1 d  d         gaps [0,1] before F0, [7,9] after the last
TEST(Gaps, OneForwardOneBackwardWarmsUpAndDrains) {
  const Trace trace = pipeline_trace({});
  const std::vector<Gap> gaps = find_gaps(trace, 0);
  ASSERT_EQ(gaps.size(), 4u);
  EXPECT_EQ(gaps[0].when, (Interval{Seconds(2), Seconds(4)}));
  EXPECT_EQ(gaps[0].cause, GapCause::WarmUp);
  EXPECT_EQ(gaps[1].when, (Interval{Seconds(6), Seconds(7)}));
  EXPECT_EQ(gaps[1].cause, GapCause::Drain);
  EXPECT_EQ(gaps[2].when, (Interval{Seconds(0), Seconds(1)}));
  EXPECT_EQ(gaps[2].cause, GapCause::WarmUp);
  EXPECT_EQ(gaps[3].when, (Interval{Seconds(7), Seconds(9)}));
  EXPECT_EQ(gaps[3].cause, GapCause::Drain);
}

// The gap before B0 of rank 0 ends when rank 1 has computed its B0.
TEST(Gaps, BlameTheNeighboursSpan) {
  const Trace trace = pipeline_trace({});
  const Gap gap = find_gaps(trace, 0).front();
  ASSERT_TRUE(gap.blamed);
  const Span& blamed = trace.spans[static_cast<std::size_t>(*gap.blamed)];
  EXPECT_EQ(trace.lanes[static_cast<std::size_t>(blamed.lane)].rank, Rank(1));
  EXPECT_EQ(blamed.kind, SpanKind::Backward);
  EXPECT_EQ(blamed.microbatch, 0);
}

// With equal stages and free messages each rank idles (p - 1)(F + B) in the window, none of it for
// imbalance.
TEST(Gaps, EachRankIdlesThePipelinesBubble) {
  const Trace trace = pipeline_trace({.stages = 4, .microbatches = 8});
  const std::vector<Gap> gaps = find_gaps(trace, 0);
  for (int r = 0; r < 4; ++r) {
    EXPECT_DOUBLE_EQ(total(gaps_of(gaps, r)).value, 3 * (1.0 + 2.0)) << r;
  }
  for (const Gap& gap : gaps) {
    EXPECT_TRUE(gap.cause == GapCause::WarmUp || gap.cause == GapCause::Drain);
  }
}

// Compute times that vary make neighbours wait in the middle of the step too.
TEST(Gaps, UnequalTimesAreImbalance) {
  const Trace trace = pipeline_trace({.stages = 4, .microbatches = 16, .jitter = 0.2});
  int imbalances = 0;
  for (const Gap& gap : find_gaps(trace, 0)) imbalances += gap.cause == GapCause::Imbalance;
  EXPECT_GT(imbalances, 0);
}

/// Spans for traces made by hand: one lane per entry of `lanes`, in order.
class HandMade {
 public:
  std::int32_t lane(int rank, Stream stream) {
    trace.lanes.push_back({Rank(rank), stream, {}});
    return static_cast<std::int32_t>(trace.lanes.size()) - 1;
  }
  std::int32_t span(std::int32_t on, SpanKind kind, double start, double transfer, double end,
                    std::vector<std::int32_t> after = {}) {
    if (trace.names.empty()) trace.names = {"span"};
    if (trace.dependency_begin.empty()) trace.dependency_begin = {0};
    const auto number = static_cast<std::int32_t>(trace.spans.size());
    trace.spans.push_back({on,
                           0,
                           kind,
                           {0, 0, number},
                           std::nullopt,
                           Seconds(start),
                           Seconds(transfer),
                           Seconds(end),
                           Bytes(0)});
    for (std::int32_t other : after) trace.dependencies.push_back(other);
    trace.dependency_begin.push_back(static_cast<std::int64_t>(trace.dependencies.size()));
    return number;
  }
  Trace trace;
};

// Rank 0 computes [0,1], waits for the collective [1 | 3, 4] that rank 1 reaches at 3, computes
// [4,5]. The gap [1,3] is the group's, to blame is rank 1's compute [0,3].
TEST(Gaps, ACollectiveWaitsForItsLastMember) {
  struct Case {
    Stream stream;
    GapCause cause;
  };
  for (const Case c :
       {Case{Stream::Tensor, GapCause::Tensor}, Case{Stream::Context, GapCause::Context},
        Case{Stream::Gather, GapCause::Gather}, Case{Stream::Data, GapCause::Data}}) {
    HandMade made;
    const SpanKind kind = communication_kind(c.stream);
    const auto c0 = made.lane(0, Stream::Compute);
    made.span(c0, SpanKind::Forward, 0, 0, 1);
    made.span(c0, SpanKind::Backward, 4, 4, 5, {2});
    made.span(made.lane(0, c.stream), kind, 1, 3, 4, {0});
    const auto c1 = made.lane(1, Stream::Compute);
    made.span(c1, SpanKind::Forward, 0, 0, 3);
    made.span(c1, SpanKind::Backward, 4, 4, 5, {5});
    made.span(made.lane(1, c.stream), kind, 3, 3, 4, {3});
    made.trace.collective_begin = {0, 2};
    made.trace.collective_spans = {2, 5};
    const std::vector<Gap> gaps = find_gaps(made.trace, 0);
    ASSERT_EQ(gaps.size(), 1u);
    EXPECT_EQ(gaps[0].when, (Interval{Seconds(1), Seconds(3)}));
    EXPECT_EQ(gaps[0].cause, c.cause) << gap_cause_name(c.cause);
    EXPECT_EQ(gaps[0].blamed, 3);
  }
}

// A ring of one stage: rank 0's backward [4,5] waits for keys and values [1 | 3, 4] that rank 1
// sends when its forward [0,3] has ended. The gap is the ring's: there is no pipeline that warms up.
TEST(Gaps, ARingIsNoPipeline) {
  HandMade made;
  const auto c0 = made.lane(0, Stream::Compute);
  made.span(c0, SpanKind::Forward, 0, 0, 1);
  made.span(c0, SpanKind::Backward, 4, 4, 5, {2});
  const SpanKind kind = communication_kind(Stream::ReceiveContext);
  made.span(made.lane(0, Stream::ReceiveContext), kind, 1, 3, 4, {0});
  const auto c1 = made.lane(1, Stream::Compute);
  made.span(c1, SpanKind::Forward, 0, 0, 3);
  made.span(c1, SpanKind::Backward, 3, 3, 5);
  made.span(made.lane(1, Stream::SendContext), kind, 3, 3, 4, {3});
  made.trace.flows = {{5, 2, Bytes(1)}};
  const std::vector<Gap> gaps = find_gaps(made.trace, 0);
  ASSERT_EQ(gaps.size(), 1u);
  EXPECT_EQ(gaps[0].when, (Interval{Seconds(1), Seconds(3)}));
  EXPECT_EQ(gaps[0].cause, GapCause::Context);
  EXPECT_EQ(gaps[0].blamed, 3);
}

// Nothing was missing between [0,1] and [1.5,2]: the host was slow to start it.
TEST(Gaps, WithoutAReasonTheHostIsToBlame) {
  HandMade made;
  const auto c = made.lane(0, Stream::Compute);
  made.span(c, SpanKind::Forward, 0, 0, 1);
  made.span(c, SpanKind::Backward, 1.5, 1.5, 2);
  const std::vector<Gap> gaps = find_gaps(made.trace, 0);
  ASSERT_EQ(gaps.size(), 1u);
  EXPECT_EQ(gaps[0].cause, GapCause::Host);
}

// The worker's pull [1 | 2, 3] waits for the server's answer [1 | 2, 3], which waited for the rows'
// update [0, 2].
TEST(Gaps, AWorkerWaitsForItsServer) {
  HandMade made;
  const auto c = made.lane(0, Stream::Compute);
  made.span(c, SpanKind::Forward, 0, 0, 1);
  made.span(c, SpanKind::Backward, 3, 3, 4, {2});
  const auto w = made.lane(0, Stream::ParameterServer);
  made.span(w, SpanKind::ParameterServer, 1, 2, 3, {0});
  const auto s = made.lane(1, Stream::Serve);
  made.span(s, SpanKind::Serve, 0, 0, 2);
  made.span(s, SpanKind::Serve, 2, 2, 3);
  made.trace.flows = {{4, 2, Bytes(1)}};
  const std::vector<Gap> gaps = gaps_of(find_gaps(made.trace, 0), 0);
  ASSERT_EQ(gaps.size(), 1u);
  EXPECT_EQ(gaps[0].cause, GapCause::Server);
  EXPECT_EQ(gaps[0].blamed, 3);
}

}  // namespace
}  // namespace orrery::core
