#pragma once
// What one row of the timeline shows: busy intervals in time order that do not overlap, with the
// sum of their lengths up to each, so that any range can be asked how busy it is in O(log n).

#include <array>
#include <cstdint>
#include <vector>

#include "core/trace.h"
#include "core/trace/rank_timeline.h"

namespace orrery::viz {

struct IntervalRow {
  std::vector<core::Interval> when;
  std::vector<core::SpanKind> kind;
  std::vector<std::int32_t> span;   ///< Number of the span in its trace.
  std::vector<double> busy_before;  ///< Seconds busy before interval i; one more entry: the total.

  /// Seconds busy by kind before interval i · kBlock: sums over any range cost at most 2 · kBlock
  /// steps, and this hardly any memory.
  static constexpr std::size_t kBlock = 64;
  using ByKind = std::array<double, core::kSpanKinds>;
  std::vector<ByKind> kind_before;

  std::size_t size() const { return when.size(); }
  /// The first interval that ends after t.
  std::size_t first_ending_after(core::Seconds t) const;
  /// The first interval that begins at or after t.
  std::size_t first_beginning_at(core::Seconds t) const;
  /// Seconds busy within `range`.
  core::Seconds busy_within(core::Interval range) const;
  /// Seconds busy by kind of intervals [first, last).
  ByKind busy_by_kind(std::size_t first, std::size_t last) const;
};

enum class Part { Active, Waiting };  ///< [transfer, end] or [start, transfer] of a span.

/// The intervals of these spans. Where two overlap, the earlier keeps the time.
IntervalRow interval_row(const core::Trace&, const std::vector<std::int32_t>& spans, Part part);

}  // namespace orrery::viz
