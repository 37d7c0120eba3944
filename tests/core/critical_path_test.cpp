#include "core/trace/critical_path.h"

#include <gtest/gtest.h>

#include "tests/core/pipeline_trace.h"

namespace orrery::core {
namespace {

Seconds length_of(const CriticalPath& path) {
  Seconds sum = path.unexplained;
  for (Seconds part : path.by_kind) sum += part;
  return sum;
}

// Two stages, two microbatches, F = 1, B = 2, free messages (see gap_test.cpp). The last span is
// rank 0's B1 [7,9]; it waited for rank 1's B1 [5,7], F1 [4,5], B0 [2,4], F0 [1,2], rank 0's F0.
TEST(CriticalPath, RunsThroughTheNeighbours) {
  const Trace trace = pipeline_trace({});
  const CriticalPath path = critical_path(trace, 0);
  std::vector<int> ranks;
  for (const PathPiece& piece : path.pieces) {
    const Span& span = trace.spans[static_cast<std::size_t>(piece.span)];
    ranks.push_back(trace.lanes[static_cast<std::size_t>(span.lane)].rank.value);
  }
  EXPECT_EQ(ranks, (std::vector<int>{0, 1, 1, 1, 1, 0}));
  EXPECT_EQ(path.by_kind[static_cast<std::size_t>(SpanKind::Forward)], Seconds(3));
  EXPECT_EQ(path.by_kind[static_cast<std::size_t>(SpanKind::Backward)], Seconds(6));
  EXPECT_EQ(path.unexplained, Seconds(0));
}

// Messages of 0.25 s lie on the path: F0, message, F0 B0 F1 B1 of rank 1, message, B1.
TEST(CriticalPath, CountsATransferButNotItsWait) {
  const CriticalPath path = critical_path(pipeline_trace({.message = 0.25}), 0);
  EXPECT_DOUBLE_EQ(path.by_kind[static_cast<std::size_t>(SpanKind::PipelineCommunication)].value,
                   0.5);
}

TEST(CriticalPath, CoversTheStepAndNeverOverlaps) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    const Trace trace = pipeline_trace({.stages = 4,
                                        .microbatches = 6,
                                        .ways = 2,
                                        .layers = 2,
                                        .message = 0.1,
                                        .tensor = 0.05,
                                        .all_reduce = 0.5,
                                        .optimizer = 0.2,
                                        .jitter = 0.3,
                                        .seed = seed});
    const CriticalPath path = critical_path(trace, 0);
    ASSERT_FALSE(path.pieces.empty());
    for (std::size_t i = 1; i < path.pieces.size(); ++i) {
      EXPECT_LE(path.pieces[i - 1].when.end, path.pieces[i].when.begin);
    }
    EXPECT_NEAR(length_of(path) / trace.duration(), 1.0, 1e-12);
    EXPECT_NEAR(path.unexplained.value, 0.0, 1e-12);
  }
}

TEST(CriticalPath, AnEmptyTraceHasNone) { EXPECT_TRUE(critical_path(Trace{}, 0).pieces.empty()); }

// A file may hold spans that wait for each other: the path back ends where it meets itself.
TEST(CriticalPath, EndsInACircleOfDependencies) {
  Trace trace = pipeline_trace({});
  trace.dependency_begin.assign(1, 0);
  trace.dependencies.clear();
  for (std::size_t i = 0; i < trace.spans.size(); ++i) {
    trace.dependencies.push_back(static_cast<std::int32_t>((i + 1) % trace.spans.size()));
    trace.dependency_begin.push_back(static_cast<std::int64_t>(i) + 1);
  }
  EXPECT_LE(critical_path(trace, 0).pieces.size(), trace.spans.size());
}

}  // namespace
}  // namespace orrery::core
