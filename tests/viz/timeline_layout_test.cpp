#include "viz/timeline_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/core/pipeline_trace.h"

namespace orrery::viz {
namespace {

using core::Interval;
using core::Seconds;

core::Trace dense_trace() {
  return core::pipeline_trace({.stages = 3,
                               .microbatches = 12,
                               .layers = 40,
                               .forward = 1.0,
                               .backward = 2.0,
                               .message = 0.05,
                               .tensor = 0.004,
                               .optimizer = 0.4,
                               .jitter = 0.1});
}

double drawn_busy(const std::vector<Cell>& cells) {
  double sum = 0.0;
  for (const Cell& cell : cells) sum += (cell.x1 - cell.x0) * cell.busy;
  return sum;
}

std::vector<Interval> ranges(Interval all) {
  std::vector<Interval> some{all};
  std::mt19937 random(7);
  for (int i = 0; i < 60; ++i) {
    const double length = all.length().value * std::pow(10.0, -4.0 * i / 60.0);
    std::uniform_real_distribution<double> begin(all.begin.value, all.end.value - length);
    const double b = begin(random);
    some.push_back({Seconds(b), Seconds(b + length)});
  }
  return some;
}

// Σ width · busy = busy time in the range / seconds per pixel, at every zoom, for every row.
TEST(FoldRow, DrawsAsMuchAsIsBusy) {
  const ViewModel model({dense_trace()});
  for (const Interval range : ranges(model.bounds())) {
    const Viewport viewport{100, 1000, range};
    for (const RankRows& rank : model.traces()[0].ranks) {
      for (const IntervalRow* row : {&rank.compute, &rank.communication}) {
        const double expected = row->busy_within(range).value / viewport.seconds_per_pixel();
        const auto cells = fold_row(*row, Seconds(0), viewport, {100, 1000, 0, 10});
        EXPECT_NEAR(drawn_busy(cells), expected, 1.0);
      }
    }
  }
}

// A cell never covers an idle interval of a pixel or more: it would look busy.
TEST(FoldRow, HidesNoGap) {
  const ViewModel model({dense_trace()});
  for (const Interval range : ranges(model.bounds())) {
    const Viewport viewport{0, 900, range};
    const IntervalRow& row = model.traces()[0].ranks[1].communication;
    const auto cells = fold_row(row, Seconds(0), viewport, {0, 900, 0, 10});
    for (std::size_t i = 0; i + 1 < row.size(); ++i) {
      const float x0 = viewport.x_of(row.when[i].end);
      const float x1 = viewport.x_of(row.when[i + 1].begin);
      if (x1 - x0 < 1.01F || x1 < 0 || x0 > 900) continue;
      for (const Cell& cell : cells) EXPECT_FALSE(cell.x0 < x0 && cell.x1 > x1);
    }
  }
}

// However many spans there are, a row has at most about one cell per pixel: this trace has two
// kinds of compute, so two slices per cell.
TEST(FoldRow, DrawsNoMoreCellsThanPixels) {
  const ViewModel model({dense_trace()});
  for (const Interval range : ranges(model.bounds())) {
    const auto cells =
        fold_row(model.traces()[0].ranks[0].compute, Seconds(0), {0, 200, range}, {0, 200, 0, 10});
    EXPECT_LE(cells.size(), 2 * (200u + 1));
  }
}

// Slices of a cell are stacked: none overlaps another, none leaves the row.
TEST(FoldRow, SlicesStayWithinTheRow) {
  const ViewModel model({dense_trace()});
  const auto cells = fold_row(model.traces()[0].ranks[0].compute, Seconds(0),
                              {0, 200, model.bounds()}, {0, 200, 10, 30});
  for (std::size_t i = 0; i < cells.size(); ++i) {
    EXPECT_GE(cells[i].y0, 10.0F - 1e-3F);
    EXPECT_LE(cells[i].y1, 30.0F);
    if (i > 0 && cells[i].x0 == cells[i - 1].x0) {
      EXPECT_LE(cells[i].y1, cells[i - 1].y0 + 1e-3F);
    }
  }
}

TEST(FoldRow, CellsComeFromLeftToRight) {
  const ViewModel model({dense_trace()});
  const auto cells = fold_row(model.traces()[0].ranks[0].compute, Seconds(0),
                              {0, 500, model.bounds()}, {0, 500, 0, 10});
  for (std::size_t i = 1; i < cells.size(); ++i) EXPECT_LE(cells[i - 1].x0, cells[i].x0);
}

// Spans [0,1] and [3,4] of 4 s on 400 px: wide cells at their exact places.
TEST(FoldRow, WideSpansStandWhereTheyAre) {
  core::Trace trace;
  trace.names = {"x"};
  trace.lanes = {{core::Rank(0), core::Stream::Compute, {}}};
  trace.spans = {{0, 0, core::SpanKind::Forward, {}, 0, Seconds(0), Seconds(0), Seconds(1), {}},
                 {0, 0, core::SpanKind::Backward, {}, 0, Seconds(3), Seconds(3), Seconds(4), {}}};
  const IntervalRow row = interval_row(trace, {0, 1}, Part::Active);
  const auto cells = fold_row(row, Seconds(0), {10, 410, {Seconds(0), Seconds(4)}}, {0, 0, 5, 9});
  ASSERT_EQ(cells.size(), 2u);
  EXPECT_FLOAT_EQ(cells[0].x0, 10);
  EXPECT_FLOAT_EQ(cells[0].x1, 110);
  EXPECT_FLOAT_EQ(cells[1].x0, 310);
  EXPECT_FLOAT_EQ(cells[1].x1, 410);
  EXPECT_EQ(cells[1].kind, core::SpanKind::Backward);
  EXPECT_EQ(cells[1].span, 1);
  EXPECT_FLOAT_EQ(cells[1].y0, 5);
}

DrawList layout(const ViewModel& model, const RowLayout& rows) {
  return layout_timeline(model, rows, {140, 1000, model.range()}, 1.0F, std::nullopt);
}

// 1F1B on two stages has four gaps (core/trace/gap.h); each appears on its rank's compute row.
TEST(TimelineLayout, ShowsEveryGapWithItsCause) {
  const ViewModel model({core::pipeline_trace({})});
  const RowLayout rows = arrange_rows(model, 80, 690, 1.0F);
  const DrawList list = layout(model, rows);
  ASSERT_EQ(list.gaps.size(), 4u);
  // Gap [2,4] of 9 s + 1 % on both sides, on 860 px.
  EXPECT_NEAR(list.gaps[0].x1 - list.gaps[0].x0, 860 * 2 / (9 * 1.02), 0.5);
  EXPECT_EQ(list.gaps[0].cause, core::GapCause::WarmUp);
}

TEST(TimelineLayout, LabelsPassesByMicrobatch) {
  const ViewModel model({core::pipeline_trace({})});
  const DrawList list = layout(model, arrange_rows(model, 80, 690, 1.0F));
  std::vector<std::string> texts;
  for (const Label& label : list.labels) texts.push_back(label.text);
  EXPECT_THAT(texts, testing::IsSupersetOf({"F0", "F1", "B0", "B1"}));
}

TEST(TimelineLayout, JoinsTheEndsOfMessages) {
  const ViewModel model({core::pipeline_trace({.message = 0.2})});
  const DrawList list = layout(model, arrange_rows(model, 80, 690, 1.0F));
  EXPECT_EQ(list.arrows.size(), 4u);  // Two activations, two gradients.
}

TEST(TimelineLayout, FindsTheSpanUnderThePointer) {
  const ViewModel model({core::pipeline_trace({})});
  const RowLayout rows = arrange_rows(model, 80, 690, 1.0F);
  const Viewport viewport{140, 1000, model.range()};
  const Row& compute = rows.rows.front();
  const float y = compute.top + 2;
  // Rank 0 computes F0 at 0.5 s and waits at 3 s.
  const auto found = span_at(model, rows, viewport, viewport.x_of(Seconds(0.5)), y);
  ASSERT_TRUE(found);
  EXPECT_EQ(model.traces()[0].trace.spans[static_cast<std::size_t>(found->span)].kind,
            core::SpanKind::Forward);
  EXPECT_FALSE(span_at(model, rows, viewport, viewport.x_of(Seconds(3)), y));
  EXPECT_TRUE(gap_at(model, rows, viewport, viewport.x_of(Seconds(3)), y));
}

TEST(RowLayout, ShowsFewerRowsWhereThereAreManyRanks) {
  const ViewModel two({core::pipeline_trace({})});
  EXPECT_EQ(arrange_rows(two, 80, 690, 1.0F).detail, Detail::Streams);
  const ViewModel many({core::pipeline_trace({.stages = 8, .ways = 8})});
  const RowLayout rows = arrange_rows(many, 80, 690, 1.0F);
  EXPECT_EQ(rows.detail, Detail::OneRow);
  EXPECT_EQ(rows.rows.size(), 64u);
  EXPECT_LE(rows.blocks.back().bottom, 690.5F);
}

TEST(RowLayout, SaysHowManyRanksHaveNoRoom) {
  const ViewModel model({core::pipeline_trace({.stages = 2, .ways = 200})});
  const RowLayout rows = arrange_rows(model, 0, 600, 1.0F);
  EXPECT_EQ(rows.ranks_above + rows.ranks_below + static_cast<int>(rows.blocks.size()), 400);
  EXPECT_GT(rows.ranks_below, 0);
  EXPECT_LE(rows.blocks.back().bottom, 600.5F);
}

// Prediction above measurement, within each rank.
TEST(RowLayout, PredictionStandsAboveMeasurement) {
  const ViewModel model(
      {core::pipeline_trace({}), core::pipeline_trace({.steps = 3, .simulated = false})});
  for (float height : {2000.0F, 400.0F, 60.0F}) {
    const RowLayout rows = arrange_rows(model, 0, height, 1.0F);
    for (std::size_t i = 1; i < rows.rows.size(); ++i) {
      EXPECT_GE(rows.rows[i].top, rows.rows[i - 1].bottom() - 0.01F);
      if (rows.rows[i].rank == rows.rows[i - 1].rank) {
        EXPECT_GE(rows.rows[i].trace, rows.rows[i - 1].trace);
      }
    }
  }
}

// The path goes from a layer's compute to its collective and back, thousands of times within a pixel:
// on each row that is one outline, not thousands that cover what they outline.
TEST(TimelineLayout, ACriticalPathThatAlternatesIsOneOutlineOfEachRow) {
  ViewModel model({core::pipeline_trace(
      {.stages = 1, .microbatches = 2, .layers = 2000, .tensor = 0.0005, .seed = 1})});
  model.toggle_critical_path();
  ASSERT_GT(model.traces()[0].critical.pieces.size(), 4000u);
  const RowLayout rows = arrange_rows(model, 0, 600, 1.0F);
  const DrawList list = layout_timeline(model, rows, {0, 300, model.range()}, 1.0F, std::nullopt);
  EXPECT_LE(list.critical.size(), rows.rows.size());
  EXPECT_GE(list.critical.size(), 2u);
}

}  // namespace
}  // namespace orrery::viz
