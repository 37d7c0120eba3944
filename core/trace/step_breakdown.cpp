#include "core/trace/step_breakdown.h"

#include <algorithm>

#include "core/error.h"

namespace orrery::core {

Seconds StepBreakdown::total_bubble() const {
  Seconds sum;
  for (Seconds part : bubble) sum += part;
  return sum;
}

Seconds StepBreakdown::exposed_communication() const {
  Seconds sum;
  for (int k = 0; k < kSpanKinds; ++k) {
    if (is_communication(static_cast<SpanKind>(k))) sum += by_kind[static_cast<std::size_t>(k)];
  }
  return sum;
}

double StepBreakdown::overlap() const {
  return communication == Seconds(0) ? 1.0 : overlapped / communication;
}

namespace {

void count_piece(const Piece& piece, std::optional<Interval> window, StepBreakdown& b) {
  const Seconds length = piece.when.length();
  const bool computes = piece.active.computes();
  const bool communicates = piece.active.communicates();
  if (computes) b.compute += length;
  if (communicates) b.communication += length;
  if (computes && communicates) b.overlapped += length;
  if (computes || communicates) b.device_busy += length;
  if (const auto kind = piece.active.leading()) {
    b.by_kind[static_cast<std::size_t>(*kind)] += length;
    return;
  }
  Seconds inside;
  if (window) {
    const Seconds begin = std::max(piece.when.begin, window->begin);
    const Seconds end = std::min(piece.when.end, window->end);
    if (begin < end) inside = end - begin;
  }
  b.other += length - inside;  // `inside` is counted by the causes of the gaps.
}

void count_streams(const Trace& trace, Rank rank, int step, Interval within, StepBreakdown& b) {
  for (std::int32_t i : spans_of(trace, rank, step)) {
    const Span& span = trace.spans[static_cast<std::size_t>(i)];
    const Interval active = active_interval(span);
    const auto stream = trace.lanes[static_cast<std::size_t>(span.lane)].stream;
    b.stream_busy[static_cast<std::size_t>(stream)] +=
        std::clamp(active.end, within.begin, within.end) -
        std::clamp(active.begin, within.begin, within.end);
  }
}

/// Calls f(part of a, part of b) for every summed field.
template <class F>
void for_each_part(StepBreakdown& a, const StepBreakdown& b, F f) {
  f(a.length, b.length);
  for (std::size_t k = 0; k < kSpanKinds; ++k) f(a.by_kind[k], b.by_kind[k]);
  for (std::size_t k = 0; k < kGapCauses; ++k) f(a.bubble[k], b.bubble[k]);
  for (std::size_t k = 0; k < kStreams; ++k) f(a.stream_busy[k], b.stream_busy[k]);
  f(a.other, b.other);
  f(a.device_busy, b.device_busy);
  f(a.compute, b.compute);
  f(a.communication, b.communication);
  f(a.overlapped, b.overlapped);
}

}  // namespace

std::vector<StepBreakdown> step_breakdowns(const Trace& trace, int step) {
  const Interval within = step_interval(trace, step);
  std::optional<Interval> window = pipeline_window(trace, step);
  if (window) {
    window->begin = std::clamp(window->begin, within.begin, within.end);
    window->end = std::clamp(window->end, within.begin, within.end);
  }
  std::vector<StepBreakdown> all;
  for (Rank rank : recorded_ranks(trace)) {
    StepBreakdown b;
    b.rank = rank;
    b.step = step;
    b.length = within.length();
    for (const Piece& piece : pieces(trace, rank, step, within)) count_piece(piece, window, b);
    count_streams(trace, rank, step, within, b);
    all.push_back(b);
  }
  auto b = all.begin();
  for (const Gap& gap : find_gaps(trace, step)) {
    while (b->rank != gap.rank) ++b;
    const Seconds length = std::clamp(gap.when.end, within.begin, within.end) -
                           std::clamp(gap.when.begin, within.begin, within.end);
    b->bubble[static_cast<std::size_t>(gap.cause)] += length;
  }
  return all;
}

StepBreakdown mean_breakdown(const Trace& trace, const std::vector<StepBreakdown>& breakdowns) {
  ORRERY_CHECK(!breakdowns.empty(), "no mean of nothing");
  StepBreakdown mean;
  mean.rank = breakdowns.front().rank;
  mean.step = breakdowns.front().step;
  double ranks = 0;
  for (const StepBreakdown& b : breakdowns) {
    const double weight = ranks_represented(trace, b.rank);
    ranks += weight;
    for_each_part(mean, b, [&](Seconds& sum, Seconds part) { sum += weight * part; });
  }
  for_each_part(mean, mean, [&](Seconds& sum, Seconds) { sum = sum / ranks; });
  return mean;
}

}  // namespace orrery::core
