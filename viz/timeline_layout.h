#pragma once
// (model, rows, viewport) → what is to be drawn, as data. Spans that would be narrower than a few
// pixels are folded into cells, one slice per kind, as high as the cell is busy with it, so that
// nothing idle is painted busy:
//
//   Σ (x1 - x0) · busy of a row's cells = its true busy time in pixels,
//   and no idle time of a pixel or more lies wholly under one cell.

#include <optional>
#include <string>
#include <vector>

#include "viz/row_layout.h"
#include "viz/time_axis.h"
#include "viz/view_model.h"

namespace orrery::viz {

struct Viewport {
  float left = 0.0F;
  float right = 0.0F;
  core::Interval range;  ///< Time on screen from left to right.

  double seconds_per_pixel() const { return range.length().value / (right - left); }
  float x_of(core::Seconds t) const {
    return static_cast<float>(left + (t - range.begin).value / seconds_per_pixel());
  }
  core::Seconds time_at(float x) const {
    return range.begin + core::Seconds((x - left) * seconds_per_pixel());
  }
};

enum class CellRole { Fill, Waiting, Underline };

struct Cell {
  float x0, x1, y0, y1;
  core::SpanKind kind;
  float busy;  ///< Share of [x0, x1] that is busy; 1 for a wide span.
  CellRole role;
  int trace;
  std::optional<std::int32_t> span;  ///< Unless several are folded.
};

struct GapRect {
  float x0, x1, y0, y1;
  core::GapCause cause;
  int trace;
  std::size_t gap;  ///< Into TraceView::gaps.
};

/// Text centred in [x0, x1] x [y0, y1], only where it fits.
struct Label {
  float x0, x1, y0, y1;
  std::string text;
  core::SpanKind kind;  ///< Of what lies under it.
  int trace;
  bool over_cells;  ///< What lies under it is folded: the text needs a ground of its own.
};

struct Arrow {
  float x0, y0, x1, y1;
  bool selected;
};

struct Box {
  float x0, x1, y0, y1;
};

struct DrawList {
  std::vector<Cell> cells;
  std::vector<GapRect> gaps;
  std::vector<Label> labels;
  std::vector<float> step_lines;  ///< x of step boundaries.
  std::vector<Box> pass_edges;    ///< Where a pass begins: a thin line.
  std::vector<Arrow> arrows;
  std::vector<Box> critical;  ///< Outlines of the critical path.
  std::optional<Box> selection;
  std::vector<Tick> ticks;
};

/// `hovered` shows its arrows. `scale` is that of arrange_rows.
DrawList layout_timeline(const ViewModel&, const RowLayout&, const Viewport&, float scale,
                         std::optional<SpanRef> hovered);

/// The cells of one row, for one role.
std::vector<Cell> fold_row(const IntervalRow&, core::Seconds origin, const Viewport&, Box box);

/// The span under a point, if any.
std::optional<SpanRef> span_at(const ViewModel&, const RowLayout&, const Viewport&, float x,
                               float y);
/// The gap under a point: its trace, and its number in TraceView::gaps.
std::optional<std::pair<int, std::size_t>> gap_at(const ViewModel&, const RowLayout&,
                                                  const Viewport&, float x, float y);

}  // namespace orrery::viz
