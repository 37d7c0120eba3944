#include "viz/interval_row.h"

#include <algorithm>

namespace orrery::viz {

using core::Interval;
using core::Seconds;

std::size_t IntervalRow::first_ending_after(Seconds t) const {
  return static_cast<std::size_t>(
      std::partition_point(when.begin(), when.end(),
                           [t](const Interval& i) { return i.end <= t; }) -
      when.begin());
}

std::size_t IntervalRow::first_beginning_at(Seconds t) const {
  return static_cast<std::size_t>(
      std::partition_point(when.begin(), when.end(),
                           [t](const Interval& i) { return i.begin < t; }) -
      when.begin());
}

Seconds IntervalRow::busy_within(Interval range) const {
  const std::size_t first = first_ending_after(range.begin);
  const std::size_t last = first_beginning_at(range.end);
  if (first >= last) return Seconds(0);
  Seconds busy(busy_before[last] - busy_before[first]);
  busy -= std::max(Seconds(0), range.begin - when[first].begin);
  busy -= std::max(Seconds(0), when[last - 1].end - range.end);
  return busy;
}

IntervalRow::ByKind IntervalRow::busy_by_kind(std::size_t first, std::size_t last) const {
  // The sums before `i`: those before its block, and the block's intervals up to it.
  const auto before = [this](std::size_t i) {
    ByKind sums = kind_before[i / kBlock];
    for (std::size_t k = i / kBlock * kBlock; k < i; ++k) {
      sums[static_cast<std::size_t>(kind[k])] += when[k].length().value;
    }
    return sums;
  };
  ByKind sums{};
  if (last - first <= kBlock) {
    for (std::size_t k = first; k < last; ++k) {
      sums[static_cast<std::size_t>(kind[k])] += when[k].length().value;
    }
    return sums;
  }
  sums = before(last);
  const ByKind start = before(first);
  for (std::size_t k = 0; k < sums.size(); ++k) sums[k] -= start[k];
  return sums;
}

IntervalRow interval_row(const core::Trace& trace, const std::vector<std::int32_t>& spans,
                         Part part) {
  std::vector<std::pair<Interval, std::int32_t>> found;
  found.reserve(spans.size());
  for (std::int32_t i : spans) {
    const core::Span& span = trace.spans[static_cast<std::size_t>(i)];
    const Interval when =
        part == Part::Active ? core::active_interval(span) : Interval{span.start, span.transfer};
    if (when.begin < when.end) found.emplace_back(when, i);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first.begin < b.first.begin; });
  IntervalRow row;
  double busy = 0.0;
  IntervalRow::ByKind by_kind{};
  row.kind_before.push_back(by_kind);
  for (auto [when, i] : found) {
    if (row.size() > 0) when.begin = std::max(when.begin, row.when.back().end);
    if (when.begin >= when.end) continue;
    row.when.push_back(when);
    row.kind.push_back(trace.spans[static_cast<std::size_t>(i)].kind);
    row.span.push_back(i);
    row.busy_before.push_back(busy);
    busy += when.length().value;
    by_kind[static_cast<std::size_t>(row.kind.back())] += when.length().value;
    if (row.size() % IntervalRow::kBlock == 0) row.kind_before.push_back(by_kind);
  }
  row.busy_before.push_back(busy);
  return row;
}

}  // namespace orrery::viz
