#include "viz/view_model.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/error.h"

namespace orrery::viz {

using core::Interval;
using core::Rank;
using core::Seconds;

namespace {

/// Recomputation and both gradients of a microbatch make one backward pass.
bool is_backward(core::SpanKind kind) {
  return kind == core::SpanKind::Recompute || kind == core::SpanKind::Backward ||
         kind == core::SpanKind::WeightGrad;
}

std::vector<PassRun> pass_runs(const core::Trace& trace, const IntervalRow& compute) {
  std::vector<PassRun> runs;
  for (std::size_t i = 0; i < compute.size(); ++i) {
    const core::Span& span = trace.spans[static_cast<std::size_t>(compute.span[i])];
    const bool same = !runs.empty() && runs.back().microbatch == span.microbatch &&
                      (runs.back().kind == span.kind ||
                       (is_backward(runs.back().kind) && is_backward(span.kind)));
    // A wait longer than all before it is a gap between passes, not one within.
    if (same && compute.when[i].begin - runs.back().when.end <= runs.back().when.length()) {
      runs.back().when.end = compute.when[i].end;
      if (runs.back().kind != span.kind) runs.back().kind = core::SpanKind::Backward;
    } else {
      runs.push_back({compute.when[i], span.kind, span.microbatch});
    }
  }
  return runs;
}

constexpr int kProfileBins = 512;  // Of the overview; more than a screen's width shows nothing new.

std::vector<float> compute_profile(const TraceView& view) {
  std::vector<float> bins(kProfileBins, 0.0F);
  const Seconds width = view.extent.length() / kProfileBins;
  if (view.ranks.empty() || !(width > Seconds(0))) return bins;
  const Seconds begin = view.extent.begin + view.origin;
  for (int b = 0; b < kProfileBins; ++b) {
    const Interval bin{begin + b * width, begin + (b + 1) * width};
    double busy = 0.0;
    for (const RankRows& rows : view.ranks) busy += rows.compute.busy_within(bin) / width;
    bins[static_cast<std::size_t>(b)] =
        static_cast<float>(busy / static_cast<double>(view.ranks.size()));
  }
  return bins;
}

std::vector<RankRows> rank_rows(const core::Trace& trace) {
  std::vector<RankRows> rows;
  std::vector<std::int32_t> compute;
  std::vector<std::int32_t> communication;
  const auto finish_rank = [&] {
    if (rows.empty()) return;
    rows.back().compute = interval_row(trace, compute, Part::Active);
    rows.back().communication = interval_row(trace, communication, Part::Active);
    rows.back().passes = pass_runs(trace, rows.back().compute);
    compute.clear();
    communication.clear();
  };
  std::size_t next = 0;
  for (std::size_t l = 0; l < trace.lanes.size(); ++l) {
    const core::Lane& lane = trace.lanes[l];
    if (rows.empty() || rows.back().rank != lane.rank) {
      finish_rank();
      rows.push_back({lane.rank, 1 + static_cast<int>(lane.also.size()), {}, {}, {}, {}});
    }
    std::vector<std::int32_t> spans;
    for (; next < trace.spans.size() && trace.spans[next].lane == static_cast<std::int32_t>(l);
         ++next) {
      const auto number = static_cast<std::int32_t>(next);
      spans.push_back(number);
      if (core::is_compute(trace.spans[next].kind)) compute.push_back(number);
      if (core::is_communication(trace.spans[next].kind)) communication.push_back(number);
    }
    rows.back().streams.push_back({lane.stream, interval_row(trace, spans, Part::Active),
                                   interval_row(trace, spans, Part::Waiting)});
  }
  finish_rank();
  return rows;
}

}  // namespace

ViewModel::ViewModel(std::vector<core::Trace> traces) {
  ORRERY_CHECK(!traces.empty() && traces.size() <= 2, "the viewer shows one or two traces");
  for (core::Trace& trace : traces) {
    TraceView view;
    view.trace = std::move(trace);
    view.ranks = rank_rows(view.trace);
    view.steps = core::step_count(view.trace);
    const std::vector<int> recorded = core::recorded_steps(view.trace);
    if (!recorded.empty()) view.step = recorded.back();
    analyse(view);
    traces_.push_back(std::move(view));
  }
  if (compares()) comparison_ = compare_operations(traces_[0].trace, traces_[1].trace);
  reset_bounds();
  show_step();
}

void ViewModel::analyse(TraceView& view) {
  const Interval step = core::step_interval(view.trace, view.step);
  view.origin = step.begin;
  view.shown_step = view.on_screen(step);
  Interval extent = step;
  for (const core::Span& span : view.trace.spans) {
    extent.begin = std::min(extent.begin, span.start);
    extent.end = std::max(extent.end, span.end);
  }
  view.extent = view.on_screen(extent);
  view.breakdowns = core::step_breakdowns(view.trace, view.step);
  view.mean.reset();
  if (!view.breakdowns.empty()) view.mean = mean_breakdown(view.trace, view.breakdowns);
  view.gaps = core::find_gaps(view.trace, view.step);
  view.critical = core::critical_path(view.trace, view.step);
  view.profile = compute_profile(view);
}

void ViewModel::reset_bounds() {
  Interval all = traces_.front().extent;
  for (const TraceView& view : traces_) {
    all.begin = std::min(all.begin, view.extent.begin);
    all.end = std::max(all.end, view.extent.end);
  }
  // A little air on both sides, so that the first and the last span are seen to begin and end.
  const Seconds air = std::max(kShortest, 0.01 * all.length());
  bounds_ = {all.begin - air, all.end + air};
}

std::vector<Rank> ViewModel::ranks() const {
  std::set<Rank> all;
  for (const TraceView& view : traces_) {
    for (const RankRows& rows : view.ranks) all.insert(rows.rank);
  }
  return {all.begin(), all.end()};
}

void ViewModel::show(Interval wanted) {
  if (!std::isfinite(wanted.begin.value) || !std::isfinite(wanted.end.value)) return;
  if (wanted.end < wanted.begin) std::swap(wanted.begin, wanted.end);
  const Seconds length = std::clamp(wanted.length(), kShortest, bounds_.length());
  const Seconds middle = wanted.begin + 0.5 * wanted.length();
  const Seconds begin = std::clamp(middle - 0.5 * length, bounds_.begin,
                                   std::max(bounds_.begin, bounds_.end - length));
  range_ = {begin, std::min(bounds_.end, begin + length)};
}

void ViewModel::show_step() {
  Seconds end = traces_.front().shown_step.end;
  for (const TraceView& view : traces_) end = std::max(end, view.shown_step.end);
  show({-0.01 * end, 1.01 * end});
}

void ViewModel::show_all() { show(bounds_); }

void ViewModel::zoom(double factor, Seconds about) {
  const Seconds old = range_.length();
  const Seconds length = std::clamp(old * factor, kShortest, bounds_.length());
  const double share = (about - range_.begin) / old;
  const Seconds begin = about - share * length;
  show({begin, begin + length});
}

void ViewModel::pan(Seconds by) { show({range_.begin + by, range_.end + by}); }

void ViewModel::select_step(int trace, int step) {
  TraceView& view = traces_[static_cast<std::size_t>(trace)];
  const std::vector<int> recorded = core::recorded_steps(view.trace);
  if (recorded.empty()) return;
  const auto at = std::lower_bound(recorded.begin(), recorded.end(), step);
  if (step > view.step) {
    view.step = at == recorded.end() ? recorded.back() : *at;
  } else {
    view.step = at == recorded.end() || (*at > step && at != recorded.begin()) ? *(at - 1) : *at;
  }
  analyse(view);
  shown_gap_.reset();
  reset_bounds();
  show_step();
}

void ViewModel::select(std::optional<SpanRef> span) { selection_ = span; }

void ViewModel::select_neighbour(int direction) {
  if (!selection_) return;
  const core::Trace& trace = traces_[static_cast<std::size_t>(selection_->trace)].trace;
  const std::int32_t other = selection_->span + direction;
  if (other < 0 || static_cast<std::size_t>(other) >= trace.spans.size()) return;
  const auto lane_of = [&](std::int32_t i) {
    return trace.spans[static_cast<std::size_t>(i)].lane;
  };
  if (lane_of(other) != lane_of(selection_->span)) return;
  selection_->span = other;
  const TraceView& view = traces_[static_cast<std::size_t>(selection_->trace)];
  const core::Span& span = trace.spans[static_cast<std::size_t>(other)];
  const Interval when = view.on_screen({span.start, span.end});
  if (when.end < range_.begin || when.begin > range_.end) {
    pan(when.begin + 0.5 * when.length() - range_.begin - 0.5 * range_.length());
  }
}

void ViewModel::fit_selection() {
  if (!selection_) return show_step();
  const TraceView& view = traces_[static_cast<std::size_t>(selection_->trace)];
  const core::Span& span = view.trace.spans[static_cast<std::size_t>(selection_->span)];
  const Interval when = view.on_screen({span.start, span.end});
  show({when.begin - 0.1 * when.length(), when.end + 0.1 * when.length()});
}

void ViewModel::next_gap(int direction) {
  // Of the trace that was measured, when there is one: its gaps are what is to be explained.
  const TraceView& view = traces_.back();
  if (view.gaps.empty()) return;
  std::vector<std::size_t> order(view.gaps.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return view.gaps[a].when.length() > view.gaps[b].when.length();
  });
  std::size_t place = 0;
  if (shown_gap_) {
    const auto now = std::find(order.begin(), order.end(), *shown_gap_) - order.begin();
    place = static_cast<std::size_t>(
        std::clamp<std::ptrdiff_t>(now + direction, 0, std::ssize(order) - 1));
  }
  shown_gap_ = order[place];
  const core::Gap& gap = view.gaps[*shown_gap_];
  const Interval when = view.on_screen(gap.when);
  show({when.begin - when.length(), when.end + when.length()});
  selection_.reset();
  if (gap.blamed) selection_ = SpanRef{static_cast<int>(traces_.size()) - 1, *gap.blamed};
}

void ViewModel::scroll_ranks(int by) {
  first_rank_ = std::clamp(first_rank_ + by, 0, std::max(0, static_cast<int>(ranks().size()) - 1));
}

}  // namespace orrery::viz
