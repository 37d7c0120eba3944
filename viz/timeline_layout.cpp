#include "viz/timeline_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/trace/trace_links.h"
#include "viz/palette.h"

namespace orrery::viz {

using core::Interval;
using core::Seconds;

namespace {

// Pixels at scale 1.
constexpr float kLeastGap = 3;       // A narrower gap is seen, but gets no hatch.
constexpr float kLeastPassEdge = 5;  // A narrower pass gets no edge.
constexpr float kLeastEdgeHeight = 7;
constexpr float kFoldedSpan = 3;  // Passes of narrower spans are mostly cells.
constexpr float kTickSpacing = 105;
constexpr float kRoomForOutline = 6;   // Two edges and something between them.
constexpr std::size_t kFewFlows = 24;  // So many arrows can be told apart; more hide the timeline.

class Layout {
 public:
  Layout(const ViewModel& model, const RowLayout& rows, const Viewport& viewport, float scale)
      : model_(model), rows_(rows), viewport_(viewport), scale_(scale) {}

  DrawList run(std::optional<SpanRef> hovered) {
    for (const Row& row : rows_.rows) add_row(row);
    for (int t = 0; t < static_cast<int>(model_.traces().size()); ++t) {
      add_step_lines(t);
      if (model_.shows_critical_path()) add_critical(t);
      add_flows(t, hovered);
    }
    if (const auto selected = model_.selection()) out_.selection = box_of(*selected);
    out_.ticks = time_ticks(viewport_.range,
                            std::max(1, static_cast<int>((viewport_.right - viewport_.left) /
                                                         (kTickSpacing * scale_))));
    return std::move(out_);
  }

 private:
  const TraceView& view(int trace) const {
    return model_.traces()[static_cast<std::size_t>(trace)];
  }
  bool visible(Interval on_screen) const {
    return on_screen.end > viewport_.range.begin && on_screen.begin < viewport_.range.end;
  }
  float clamped_x(Seconds t) const {
    return viewport_.x_of(std::clamp(t, viewport_.range.begin, viewport_.range.end));
  }

  void add_row(const Row& row) {
    if (row.waiting != nullptr) add_cells(row, *row.waiting, CellRole::Waiting);
    if (row.computes) add_gaps(row);
    add_cells(row, *row.fill, CellRole::Fill);
    if (row.underline != nullptr) add_cells(row, *row.underline, CellRole::Underline);
    if (row.computes) {
      add_passes(row);
    } else {
      add_names(row);
    }
  }

  void add_cells(const Row& row, const IntervalRow& intervals, CellRole role) {
    Box box{viewport_.left, viewport_.right, row.top, row.underline_top()};
    if (role == CellRole::Underline) box = {box.x0, box.x1, row.underline_top(), row.bottom()};
    for (Cell cell : fold_row(intervals, view(row.trace).origin, viewport_, box)) {
      cell.role = role;
      cell.trace = row.trace;
      out_.cells.push_back(cell);
    }
  }

  void add_gaps(const Row& row) {
    const TraceView& v = view(row.trace);
    const auto of_rank = std::partition_point(
        v.gaps.begin(), v.gaps.end(), [&](const core::Gap& g) { return g.rank < row.rank; });
    for (auto gap = of_rank; gap != v.gaps.end() && gap->rank == row.rank; ++gap) {
      const Interval when = v.on_screen(gap->when);
      if (!visible(when)) continue;
      const float x0 = clamped_x(when.begin);
      const float x1 = clamped_x(when.end);
      if (x1 - x0 < kLeastGap * scale_) continue;
      out_.gaps.push_back({x0, x1, row.top, row.bottom(), gap->cause, row.trace,
                           static_cast<std::size_t>(gap - v.gaps.begin())});
    }
  }

  /// Edges and labels of passes; where single spans have room, their names instead.
  void add_passes(const Row& row) {
    const TraceView& v = view(row.trace);
    const auto& passes = row.rank_rows->passes;
    auto pass = std::partition_point(passes.begin(), passes.end(), [&](const PassRun& p) {
      return p.when.end - v.origin <= viewport_.range.begin;
    });
    for (; pass != passes.end(); ++pass) {
      const Interval when = v.on_screen(pass->when);
      if (!visible(when)) break;
      const float x0 = clamped_x(when.begin);
      const float x1 = clamped_x(when.end);
      if (x1 - x0 < kLeastPassEdge * scale_) continue;
      if (when.begin > viewport_.range.begin && row.height >= kLeastEdgeHeight * scale_) {
        out_.pass_edges.push_back({x0, x0, row.top, row.underline_top()});
      }
      if (add_span_names(row, pass->when)) continue;
      std::string text(short_name(pass->kind));
      if (pass->microbatch) text += std::to_string(*pass->microbatch);
      const std::size_t spans = row.fill->first_beginning_at(pass->when.end) -
                                row.fill->first_beginning_at(pass->when.begin);
      const bool folded = spans > 1 && (x1 - x0) / static_cast<float>(spans) < kFoldedSpan;
      out_.labels.push_back(
          {x0, x1, row.top, row.underline_top(), std::move(text), pass->kind, row.trace, folded});
    }
  }

  /// Labels single spans of [when] by name if the typical one has room for it.
  bool add_span_names(const Row& row, Interval when) {
    const TraceView& v = view(row.trace);
    const IntervalRow& fill = *row.fill;
    const std::size_t first = fill.first_ending_after(when.begin);
    const std::size_t last = fill.first_beginning_at(when.end);
    if (last < first + 2) return false;  // The pass is one span: its microbatch says more.
    const double mean = when.length().value / static_cast<double>(last - first);
    if (mean < kRoomForName * scale_ * viewport_.seconds_per_pixel()) return false;
    for (std::size_t i = first; i < last; ++i) add_name(row, v, i);
    return true;
  }

  void add_names(const Row& row) {
    const TraceView& v = view(row.trace);
    const IntervalRow& fill = *row.fill;
    std::size_t i = fill.first_ending_after(viewport_.range.begin + v.origin);
    const std::size_t last = fill.first_beginning_at(viewport_.range.end + v.origin);
    const double least = kRoomForName * scale_ * viewport_.seconds_per_pixel();
    // More spans than fit side by side: none has room for its name.
    if (static_cast<double>(last - std::min(i, last)) * least >
        4.0 * viewport_.range.length().value) {
      return;
    }
    for (; i < last; ++i) {
      if (fill.when[i].length().value >= least) add_name(row, v, i);
    }
  }

  void add_name(const Row& row, const TraceView& v, std::size_t i) {
    const Interval when = v.on_screen(row.fill->when[i]);
    if (!visible(when)) return;
    const core::Span& span = v.trace.spans[static_cast<std::size_t>(row.fill->span[i])];
    out_.labels.push_back({clamped_x(when.begin), clamped_x(when.end), row.top, row.underline_top(),
                           v.trace.names[static_cast<std::size_t>(span.name)], span.kind, row.trace,
                           false});
  }

  void add_step_lines(int trace) {
    const TraceView& v = view(trace);
    if (trace > 0 || v.steps < 2) return;
    for (int s = 0; s < v.steps && static_cast<std::size_t>(s) < v.trace.steps.size(); ++s) {
      const Seconds t = v.trace.steps[static_cast<std::size_t>(s)].start - v.origin;
      if (t > viewport_.range.begin && t < viewport_.range.end) {
        out_.step_lines.push_back(viewport_.x_of(t));
      }
    }
  }

  std::optional<Box> box_of(SpanRef ref) const {
    const TraceView& v = view(ref.trace);
    const core::Span& span = v.trace.spans[static_cast<std::size_t>(ref.span)];
    const Interval when = v.on_screen({span.start, span.end});
    const Row* row = rows_.row_of(model_, ref);
    if (row == nullptr || !visible(when)) return std::nullopt;
    return Box{clamped_x(when.begin), clamped_x(when.end), row->top, row->bottom()};
  }

  void add_critical(int trace) {
    const TraceView& v = view(trace);
    std::map<float, std::size_t> last_of_row;
    for (const core::PathPiece& piece : v.critical.pieces) {
      const Interval when = v.on_screen(piece.when);
      const Row* row = rows_.row_of(model_, {trace, piece.span});
      if (row == nullptr || !visible(when)) continue;
      const Box box{clamped_x(when.begin), clamped_x(when.end), row->top, row->bottom()};
      // Near neighbours on one row make one outline, also where the path visits other rows between.
      const auto [last, is_first] = last_of_row.try_emplace(box.y0, out_.critical.size());
      if (!is_first && box.x0 - out_.critical[last->second].x1 < kRoomForOutline * scale_) {
        out_.critical[last->second].x1 = std::max(out_.critical[last->second].x1, box.x1);
        continue;
      }
      last->second = out_.critical.size();
      out_.critical.push_back(box);
    }
  }

  void add_flows(int trace, std::optional<SpanRef> hovered) {
    const TraceView& v = view(trace);
    std::vector<const core::Flow*> shown;
    const auto is = [&](const std::optional<SpanRef>& ref, const core::Flow& flow) {
      return ref && ref->trace == trace &&
             (ref->span == flow.from_span || ref->span == flow.to_span);
    };
    std::size_t in_view = 0;
    for (const core::Flow& flow : v.trace.flows) {
      const auto& from = v.trace.spans[static_cast<std::size_t>(flow.from_span)];
      const auto& to = v.trace.spans[static_cast<std::size_t>(flow.to_span)];
      if (!visible(v.on_screen({from.transfer, to.end}))) continue;
      if (++in_view <= kFewFlows || is(hovered, flow) || is(model_.selection(), flow)) {
        shown.push_back(&flow);
      }
    }
    for (const core::Flow* flow : shown) {
      const bool chosen = is(hovered, *flow) || is(model_.selection(), *flow);
      if (chosen ||
          (in_view <= kFewFlows && rows_.detail == Detail::Streams && !model_.compares())) {
        add_arrow(trace, *flow, chosen);
      }
    }
  }

  void add_arrow(int trace, const core::Flow& flow, bool chosen) {
    const TraceView& v = view(trace);
    const Row* from = rows_.row_of(model_, {trace, flow.from_span});
    const Row* to = rows_.row_of(model_, {trace, flow.to_span});
    if (from == nullptr || to == nullptr || from == to) return;
    const core::Span& sent = v.trace.spans[static_cast<std::size_t>(flow.from_span)];
    const core::Span& got = v.trace.spans[static_cast<std::size_t>(flow.to_span)];
    out_.arrows.push_back({clamped_x(sent.transfer - v.origin), 0.5F * (from->top + from->bottom()),
                           clamped_x(got.end - v.origin), 0.5F * (to->top + to->bottom()), chosen});
  }

  static constexpr double kRoomForName = 70;

  const ViewModel& model_;
  const RowLayout& rows_;
  const Viewport& viewport_;
  float scale_;
  DrawList out_;
};

std::optional<std::int32_t> span_in(const IntervalRow* row, Seconds t) {
  if (row == nullptr) return std::nullopt;
  const std::size_t i = row->first_ending_after(t);
  if (i >= row->size() || row->when[i].begin > t) return std::nullopt;
  return row->span[i];
}

}  // namespace

DrawList layout_timeline(const ViewModel& model, const RowLayout& rows, const Viewport& viewport,
                         float scale, std::optional<SpanRef> hovered) {
  return Layout(model, rows, viewport, scale).run(hovered);
}

std::optional<SpanRef> span_at(const ViewModel& model, const RowLayout& rows,
                               const Viewport& viewport, float x, float y) {
  const Row* row = rows.row_at(y);
  if (row == nullptr || x < viewport.left || x >= viewport.right) return std::nullopt;
  const Seconds t =
      viewport.time_at(x) + model.traces()[static_cast<std::size_t>(row->trace)].origin;
  const bool low = row->underline != nullptr && y >= row->underline_top();
  std::optional<std::int32_t> found = span_in(low ? row->underline : row->fill, t);
  if (!found) found = span_in(row->waiting, t);
  if (!found) return std::nullopt;
  return SpanRef{row->trace, *found};
}

std::optional<std::pair<int, std::size_t>> gap_at(const ViewModel& model, const RowLayout& rows,
                                                  const Viewport& viewport, float x, float y) {
  const Row* row = rows.row_at(y);
  if (row == nullptr || !row->computes || x < viewport.left || x >= viewport.right) {
    return std::nullopt;
  }
  const TraceView& view = model.traces()[static_cast<std::size_t>(row->trace)];
  const Seconds t = viewport.time_at(x) + view.origin;
  for (std::size_t i = 0; i < view.gaps.size(); ++i) {
    const core::Gap& gap = view.gaps[i];
    if (gap.rank == row->rank && gap.when.begin <= t && t < gap.when.end) {
      return std::pair(row->trace, i);
    }
  }
  return std::nullopt;
}

}  // namespace orrery::viz
