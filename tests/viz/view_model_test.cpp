#include "viz/view_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/core/pipeline_trace.h"

namespace orrery::viz {
namespace {

using core::Interval;
using core::Seconds;

ViewModel comparison() {
  return ViewModel(
      {core::pipeline_trace({.stages = 4, .microbatches = 6}),
       core::pipeline_trace(
           {.stages = 4, .microbatches = 6, .steps = 3, .jitter = 0.2, .simulated = false})});
}

void expect_within_bounds(const ViewModel& model) {
  ASSERT_GE(model.range().begin, model.bounds().begin);
  ASSERT_LE(model.range().end, model.bounds().end);
  ASSERT_GT(model.range().length(), Seconds(0));
}

// Whatever the user does, the view stays within the trace.
TEST(ViewModel, TenThousandRandomInputsStayWithinTheTrace) {
  ViewModel model = comparison();
  std::mt19937 random(3);
  std::uniform_int_distribution<int> which(0, 12);
  std::uniform_real_distribution<double> value(-1.0, 1.0);
  for (int i = 0; i < 10'000; ++i) {
    const double v = value(random);
    switch (which(random)) {
      case 0:
        model.zoom(std::exp(8 * v), Seconds(50 * value(random)));
        break;
      case 1:
        model.pan(Seconds(100 * v));
        break;
      case 2:
        model.show({Seconds(40 * v), Seconds(40 * value(random))});
        break;
      case 3:
        model.show_all();
        break;
      case 4:
        model.show_step();
        break;
      case 5:
        model.next_gap(v > 0 ? 1 : -1);
        break;
      case 6:
        model.select(SpanRef{i % 2, i % 50});
        break;
      case 7:
        model.fit_selection();
        break;
      case 8:
        model.select_neighbour(v > 0 ? 1 : -1);
        break;
      case 9:
        model.scroll_ranks(static_cast<int>(10 * v));
        break;
      case 10:
        model.show({Seconds(v), Seconds(v)});
        break;
      case 11:
        model.zoom(1e-30, Seconds(v));
        break;
      case 12:
        model.show({Seconds(std::nan("")), Seconds(1)});
        break;
    }
    expect_within_bounds(model);
  }
}

TEST(ViewModel, ZoomKeepsTheTimeUnderTheCursor) {
  ViewModel model({core::pipeline_trace({})});
  const Seconds about(4.0);
  const double before = (about - model.range().begin) / model.range().length();
  model.zoom(0.25, about);
  EXPECT_NEAR((about - model.range().begin) / model.range().length(), before, 1e-9);
}

// The measured trace has three steps; its last one begins on screen where the prediction's begins.
TEST(ViewModel, AlignsTheTracesAtTheShownStep) {
  ViewModel model = comparison();
  EXPECT_EQ(model.traces()[0].shown_step.begin, Seconds(0));
  EXPECT_EQ(model.traces()[1].shown_step.begin, Seconds(0));
  EXPECT_EQ(model.traces()[1].step, 2);
  EXPECT_EQ(model.traces()[1].origin, model.traces()[1].trace.steps[2].start);
  model.select_step(1, 0);
  EXPECT_EQ(model.traces()[1].origin, model.traces()[1].trace.steps[0].start);
  model.select_step(1, 99);
  EXPECT_EQ(model.traces()[1].step, 2);
}

TEST(ViewModel, GoesThroughTheGapsByLength) {
  ViewModel model({core::pipeline_trace({.stages = 4, .microbatches = 6})});
  const auto& gaps = model.traces()[0].gaps;
  Seconds before(std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    model.next_gap(1);
    const Seconds length = gaps[*model.shown_gap()].when.length();
    EXPECT_LE(length, before);
    before = length;
  }
}

TEST(ViewModel, AnEmptyTraceCanBeShown) {
  ViewModel model({core::Trace{}});
  expect_within_bounds(model);
  model.zoom(0.1, Seconds(0));
  model.next_gap(1);
  model.select_neighbour(1);
  expect_within_bounds(model);
  EXPECT_TRUE(model.ranks().empty());
}

// Intervals [0,1] and [2,4]: within [0.5, 3] 0.5 s + 1 s are busy.
TEST(IntervalRow, KnowsHowBusyARangeIs) {
  core::Trace trace;
  trace.lanes = {{core::Rank(0), core::Stream::Compute, {}}};
  trace.spans = {{0, 0, core::SpanKind::Forward, {}, 0, Seconds(0), Seconds(0), Seconds(1), {}},
                 {0, 0, core::SpanKind::Backward, {}, 0, Seconds(2), Seconds(2), Seconds(4), {}}};
  const IntervalRow row = interval_row(trace, {0, 1}, Part::Active);
  EXPECT_DOUBLE_EQ(row.busy_within({Seconds(0.5), Seconds(3)}).value, 1.5);
  EXPECT_DOUBLE_EQ(row.busy_within({Seconds(-1), Seconds(9)}).value, 3.0);
  EXPECT_DOUBLE_EQ(row.busy_within({Seconds(1.2), Seconds(1.8)}).value, 0.0);
  EXPECT_DOUBLE_EQ(row.busy_within({Seconds(2.5), Seconds(3)}).value, 0.5);
}

// The block sums and a plain sum agree, whatever the range.
TEST(IntervalRow, SumsByKindAsIfOneByOne) {
  const core::Trace trace = core::pipeline_trace({.stages = 2, .microbatches = 40, .layers = 5});
  const ViewModel model({trace});
  const IntervalRow& row = model.traces()[0].ranks[0].compute;
  ASSERT_GT(row.size(), 3 * IntervalRow::kBlock);
  for (std::size_t first = 0; first < row.size(); first += 37) {
    for (std::size_t last = first; last <= row.size(); last += 41) {
      IntervalRow::ByKind plain{};
      for (std::size_t i = first; i < last; ++i) {
        plain[static_cast<std::size_t>(row.kind[i])] += row.when[i].length().value;
      }
      const IntervalRow::ByKind sums = row.busy_by_kind(first, last);
      for (std::size_t k = 0; k < sums.size(); ++k) EXPECT_NEAR(sums[k], plain[k], 1e-9);
    }
  }
}

// Union of [0,3] and [2,5]: the earlier keeps the overlap, together 5 s.
TEST(IntervalRow, OverlapCountsOnce) {
  core::Trace trace;
  trace.lanes = {{core::Rank(0), core::Stream::Compute, {}},
                 {core::Rank(0), core::Stream::Data, {}}};
  trace.spans = {
      {0, 0, core::SpanKind::Forward, {}, 0, Seconds(0), Seconds(0), Seconds(3), {}},
      {1, 0, core::SpanKind::DataCommunication, {}, 0, Seconds(1), Seconds(2), Seconds(5), {}}};
  const IntervalRow row = interval_row(trace, {0, 1}, Part::Active);
  EXPECT_DOUBLE_EQ(row.busy_before.back(), 5.0);
  EXPECT_EQ(row.when[1], (Interval{Seconds(3), Seconds(5)}));
  const IntervalRow waits = interval_row(trace, {0, 1}, Part::Waiting);
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits.when[0], (Interval{Seconds(1), Seconds(2)}));
}

// Of steps 0 to 4, 1 and 3 were recorded: the last is shown, and going on skips the others.
TEST(ViewModel, ShowsRecordedStepsAlone) {
  core::Trace trace = core::pipeline_trace({.stages = 2, .microbatches = 2, .steps = 5});
  for (core::Span& span : trace.spans) {
    span.instruction.step = span.instruction.step < 2 ? 1 : 3;
  }
  ViewModel model({trace});
  const auto shown = [&] { return model.traces()[0].step; };
  EXPECT_EQ(shown(), 3);
  model.select_step(0, 2);  // Back.
  EXPECT_EQ(shown(), 1);
  model.select_step(0, 0);
  EXPECT_EQ(shown(), 1);
  model.select_step(0, 2);  // On.
  EXPECT_EQ(shown(), 3);
  model.select_step(0, 9);
  EXPECT_EQ(shown(), 3);
}

}  // namespace
}  // namespace orrery::viz
