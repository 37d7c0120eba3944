// Folding of a row's narrow spans into cells (timeline_layout.h).

#include <algorithm>
#include <cmath>

#include "viz/timeline_layout.h"

namespace orrery::viz {

using core::Interval;
using core::Seconds;

namespace {

constexpr double kNarrow = 2.5;    // Pixels below which a span is folded.
constexpr double kLikeBusy = 0.1;  // Neighbouring cells this alike in busy share are merged.

/// Folds one row, left to right.
class Folder {
 public:
  Folder(const IntervalRow& row, Seconds origin, const Viewport& viewport, Box box)
      : row_(row), viewport_(viewport), box_(box) {
    // Times of the row are the trace's; those of the viewport are on screen.
    range_ = {viewport.range.begin + origin, viewport.range.end + origin};
    pixel_ = viewport.seconds_per_pixel();
    // A power of two of seconds, at most one pixel: cells stay where they are while panning.
    cell_ = std::exp2(std::floor(std::log2(pixel_)));
  }

  std::vector<Cell> fold() {
    std::size_t i = row_.first_ending_after(range_.begin);
    const std::size_t end = row_.first_beginning_at(range_.end);
    while (i < end) {
      if (wide(i)) {
        add(i, i + 1, false);
        ++i;
        continue;
      }
      const double boundary = (std::floor(row_.when[i].begin.value / cell_) + 1.0) * cell_;
      std::size_t next = next_beginning_at(i + 1, end, boundary);
      if (next > i + 1 && wide(next - 1)) --next;
      add(i, next, true);
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

  /// Intervals [first, last) as one cell, clipped to what is visible.
  void add(std::size_t first, std::size_t last, bool folded) {
    const Seconds begin = std::max(row_.when[first].begin, range_.begin);
    const Seconds end = std::min(row_.when[last - 1].end, range_.end);
    const double busy = row_.busy_before[last] - row_.busy_before[first] -
                        (begin - row_.when[first].begin).value -
                        (row_.when[last - 1].end - end).value;
    const core::SpanKind kind = row_.kind[first + (last - first) / 2];
    if (folded && pending_ && merges(begin, end, busy, kind)) {
      pending_->end = end;
      pending_->busy += busy;
      pending_->span.reset();
      return;
    }
    flush();
    pending_ = Pending{begin, end, busy, kind, folded, std::nullopt};
    if (last == first + 1) pending_->span = row_.span[first];
  }

  bool merges(Seconds begin, Seconds end, double busy, core::SpanKind kind) const {
    if (!pending_->folded || pending_->kind != kind) return false;
    if ((begin - pending_->end).value >= pixel_) return false;
    const double before =
        pending_->busy / std::max(pixel_, (pending_->end - pending_->begin).value);
    const double now = busy / std::max(pixel_, (end - begin).value);
    return std::abs(before - now) < kLikeBusy;
  }

  void flush() {
    if (!pending_) return;
    const double scale = 1.0 / pixel_;
    const double x0 = viewport_.left + (pending_->begin - range_.begin).value * scale;
    const double width = std::max(1.0, (pending_->end - pending_->begin).value * scale);
    cells_.push_back({static_cast<float>(x0), static_cast<float>(x0 + width), box_.y0, box_.y1,
                      pending_->kind, static_cast<float>(pending_->busy * scale / width),
                      CellRole::Fill, 0, pending_->span});
    pending_.reset();
  }

  struct Pending {
    Seconds begin, end;
    double busy;
    core::SpanKind kind;
    bool folded;
    std::optional<std::int32_t> span;
  };

  const IntervalRow& row_;
  const Viewport& viewport_;
  Box box_;
  Interval range_;
  double pixel_ = 0.0;
  double cell_ = 0.0;
  std::optional<Pending> pending_;
  std::vector<Cell> cells_;
};

}  // namespace

std::vector<Cell> fold_row(const IntervalRow& row, Seconds origin, const Viewport& viewport,
                           Box box) {
  return Folder(row, origin, viewport, box).fold();
}

}  // namespace orrery::viz
