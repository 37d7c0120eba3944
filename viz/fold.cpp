// Folding of a row's narrow spans into cells (timeline_layout.h).

#include <algorithm>
#include <cmath>

#include "viz/timeline_layout.h"

namespace orrery::viz {

using core::Interval;
using core::Seconds;

namespace {

constexpr double kNarrow = 2.5;     // Pixels below which a span is folded.
constexpr double kCellWidth = 5.0;  // Pixels of a cell, at most; wide enough to average, narrow
                                    // enough to show when.

/// Folds one row, left to right.
class Folder {
 public:
  Folder(const IntervalRow& row, Seconds origin, const Viewport& viewport, Box box)
      : row_(row), viewport_(viewport), box_(box) {
    // Times of the row are the trace's; those of the viewport are on screen.
    range_ = {viewport.range.begin + origin, viewport.range.end + origin};
    pixel_ = viewport.seconds_per_pixel();
    // Powers of two of seconds: cells stay where they are while panning.
    step_ = std::exp2(std::floor(std::log2(pixel_)));
    cell_ = std::exp2(std::floor(std::log2(kCellWidth * pixel_)));
  }

  std::vector<Cell> fold() {
    std::size_t i = row_.first_ending_after(range_.begin);
    const std::size_t end = row_.first_beginning_at(range_.end);
    while (i < end) {
      // Spans that begin within one pixel leave no gap of a pixel between them.
      std::size_t next = i + 1;
      if (!wide(i)) {
        const double boundary = (std::floor(row_.when[i].begin.value / step_) + 1.0) * step_;
        next = next_beginning_at(i + 1, end, boundary);
        if (next > i + 1 && wide(next - 1)) --next;
      }
      add(i, next);
      i = next;
    }
    flush();
    return std::move(cells_);
  }

 private:
  bool wide(std::size_t i) const { return row_.when[i].length().value >= kNarrow * pixel_; }

  /// The first interval of [from, end) that begins at or after `time`: galloping, because it is
  /// mostly near.
  std::size_t next_beginning_at(std::size_t from, std::size_t end, double time) const {
    std::size_t step = 1;
    std::size_t low = from;
    while (low < end && row_.when[low].begin.value < time) {
      const std::size_t high = std::min(end, low + step);
      if (high == end || row_.when[high].begin.value >= time) {
        return static_cast<std::size_t>(
            std::partition_point(row_.when.begin() + static_cast<std::ptrdiff_t>(low),
                                 row_.when.begin() + static_cast<std::ptrdiff_t>(high),
                                 [time](const Interval& w) { return w.begin.value < time; }) -
            row_.when.begin());
      }
      low = high;
      step *= 2;
    }
    return low;
  }

  /// Intervals [first, last): part of the pending cell if they fall into it, else a new one.
  void add(std::size_t first, std::size_t last) {
    const bool merges = pending_ && !wide(first) && !wide(pending_->first) &&
                        grid(first) == grid(pending_->first) &&
                        (row_.when[first].begin - row_.when[first - 1].end).value < pixel_;
    if (merges) {
      pending_->last = last;
    } else {
      flush();
      pending_ = Range{first, last};
    }
  }

  double grid(std::size_t i) const { return std::floor(row_.when[i].begin.value / cell_); }

  /// Emits the pending cell, clipped to what is visible: a slice per kind, stacked from below.
  void flush() {
    if (!pending_) return;
    const auto [first, last] = *pending_;
    pending_.reset();
    const Seconds begin = std::max(row_.when[first].begin, range_.begin);
    const Seconds end = std::min(row_.when[last - 1].end, range_.end);
    IntervalRow::ByKind busy = row_.busy_by_kind(first, last);
    busy[static_cast<std::size_t>(row_.kind[first])] -= (begin - row_.when[first].begin).value;
    busy[static_cast<std::size_t>(row_.kind[last - 1])] -= (row_.when[last - 1].end - end).value;
    const double x0 = viewport_.left + (begin - range_.begin).value / pixel_;
    const double width = std::max(1.0, (end - begin).value / pixel_);
    Cell cell{static_cast<float>(x0),
              static_cast<float>(x0 + width),
              box_.y0,
              box_.y1,
              row_.kind[first],
              0.0F,
              CellRole::Fill,
              0,
              std::nullopt};
    if (last == first + 1) {
      cell.span = row_.span[first];
      cell.busy = static_cast<float>(busy[static_cast<std::size_t>(cell.kind)] / pixel_ / width);
      cells_.push_back(cell);
      return;
    }
    for (std::size_t k = 0; k < busy.size(); ++k) {
      if (!(busy[k] > 0.0)) continue;
      cell.kind = static_cast<core::SpanKind>(k);
      cell.busy = static_cast<float>(busy[k] / pixel_ / width);
      cell.y0 = cell.y1 - cell.busy * (box_.y1 - box_.y0);
      cells_.push_back(cell);
      cell.y1 = cell.y0;
    }
  }

  struct Range {
    std::size_t first, last;
  };

  const IntervalRow& row_;
  const Viewport& viewport_;
  Box box_;
  Interval range_;
  double pixel_ = 0.0;
  double step_ = 0.0;
  double cell_ = 0.0;
  std::optional<Range> pending_;
  std::vector<Cell> cells_;
};

}  // namespace

std::vector<Cell> fold_row(const IntervalRow& row, Seconds origin, const Viewport& viewport,
                           Box box) {
  return Folder(row, origin, viewport, box).fold();
}

}  // namespace orrery::viz
