#include "viz/paint_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace orrery::viz {

namespace {

constexpr std::uint8_t kFaint = 70;  // Alpha of a wait.
constexpr float kLeastHatched = 7;   // Pixels: a lower hatch is noise.
constexpr std::uint8_t kArrowAlpha = 130;

Colour with_alpha(Colour c, std::uint8_t alpha) { return {c.red, c.green, c.blue, alpha}; }

class TimelinePainter {
 public:
  TimelinePainter(Canvas& canvas, const ViewModel& model, const RowLayout& rows)
      : canvas_(canvas), model_(model), rows_(rows), scale_(canvas.scale()) {}

  void backgrounds(const Viewport& viewport) {
    for (const Row& row : rows_.rows) {
      canvas_.fill(viewport.left, row.top, viewport.right, row.bottom(), kRow);
    }
  }

  void cell(const Cell& cell) {
    const float x0 = std::round(cell.x0);
    const float x1 = std::max(x0 + 1.0F, std::round(cell.x1));
    const Colour colour = colour_of(cell.kind);
    if (cell.role == CellRole::Waiting) {
      const float middle = 0.5F * (cell.y0 + cell.y1);
      const float half = std::max(0.5F, 0.08F * (cell.y1 - cell.y0));
      canvas_.fill(x0, middle - half, x1, middle + half, with_alpha(colour, kFaint));
      return;
    }
    Colour inside = outlined(cell.trace) ? mix(colour, kBackground, 0.45) : colour;
    const bool narrow = x1 - x0 < 3.0F;
    // A span narrower than a pixel is a fainter pixel, but never so faint that it is lost.
    if (cell.span && narrow) inside = mix(inside, kRow, std::max(0.4F, std::min(1.0F, cell.busy)));
    const float y0 = std::round(cell.y0);
    const float y1 = std::round(cell.y1);
    if (y1 <= y0) return;
    canvas_.fill(x0, y0, x1, y1, inside);
    const bool hatched = cell.kind == core::SpanKind::Recompute && cell.role == CellRole::Fill;
    if (hatched && y1 - y0 >= 4.0F) {
      canvas_.hatch(x0, y0, x1, y1, with_alpha(kText, 90), 5.0F * scale_);
    }
    if (!cell.span || x1 - x0 < 5.0F * scale_) return;
    if (outlined(cell.trace)) {
      canvas_.outline(x0, y0, x1, y1, colour, 1.0F);
    } else {
      canvas_.fill(x1 - 1.0F, y0, x1, y1, mix(colour, kBackground, 0.7));
    }
  }

  void gap(const GapRect& gap) {
    canvas_.fill(gap.x0, gap.y0, gap.x1, gap.y1, kBubble);
    if (gap.y1 - gap.y0 < kLeastHatched * scale_) return;
    canvas_.hatch(gap.x0, gap.y0, gap.x1, gap.y1, with_alpha(kBubbleHatch, 120), 6.0F * scale_);
  }

  void gap_letter(const GapRect& gap) {
    const std::string letter(1, core::gap_cause_letter(gap.cause));
    const float width = gap.x1 - gap.x0;
    const float height = gap.y1 - gap.y0;
    if (width < 2.0F * canvas_.small_text_height() || height < canvas_.small_text_height()) return;
    const float x = 0.5F * (gap.x0 + gap.x1);
    const float y = 0.5F * (gap.y0 + gap.y1);
    const float half = 0.5F * canvas_.small_text_height();
    canvas_.fill(x - half, y - half, x + half, y + half, kBubble);
    canvas_.small_text(x, y, Align::Centre, kText, letter);
  }

  void label(const Label& label) {
    const float width = label.x1 - label.x0 - 4.0F * scale_;
    const float height = label.y1 - label.y0;
    Colour background = colour_of(label.kind);
    if (outlined(label.trace)) background = mix(background, kBackground, 0.45);
    const Colour ink = text_on(background);
    const float x = 0.5F * (label.x0 + label.x1);
    const float y = 0.5F * (label.y0 + label.y1);
    if (label.over_cells) {
      const float half = 0.5F * canvas_.small_text_width(label.text) + 1.0F;
      const float high = 0.5F * canvas_.small_text_height() + 1.0F;
      if (2.0F * half > label.x1 - label.x0 || 2.0F * high > height) return;
      canvas_.fill(x - half, y - high, x + half, y + high, background);
      canvas_.small_text(x, y, Align::Centre, ink, label.text);
      return;
    }
    if (height >= canvas_.text_height() && canvas_.text_width(label.text) <= width) {
      canvas_.text(x, y, Align::Centre, ink, label.text);
    } else if (height >= canvas_.small_text_height() - 1.0F &&
               canvas_.small_text_width(label.text) <= width) {
      canvas_.small_text(x, y, Align::Centre, ink, label.text);
    } else if (height >= canvas_.small_text_height() - 1.0F && width > 40.0F * scale_) {
      canvas_.clip(label.x0 + 2, label.y0, label.x1 - 2, label.y1);
      canvas_.small_text(label.x0 + 3.0F, y, Align::Left, ink, label.text);
      canvas_.end_clip();
    }
  }

  void arrow(const Arrow& arrow) {
    const Colour colour = arrow.selected ? kAccent : with_alpha(kText, kArrowAlpha);
    canvas_.line(arrow.x0, arrow.y0, arrow.x1, arrow.y1, colour, arrow.selected ? 1.5F : 1.0F);
    const float dx = arrow.x1 - arrow.x0;
    const float dy = arrow.y1 - arrow.y0;
    const float length = std::hypot(dx, dy);
    if (length < 8.0F) return;
    const float size = 5.0F * scale_ / length;
    canvas_.triangle(arrow.x1, arrow.y1, arrow.x1 - size * dx - 0.5F * size * dy,
                     arrow.y1 - size * dy + 0.5F * size * dx,
                     arrow.x1 - size * dx + 0.5F * size * dy,
                     arrow.y1 - size * dy - 0.5F * size * dx, colour);
  }

  void box(const Box& box, Colour colour, float thickness) {
    canvas_.outline(box.x0 - 1, box.y0 - 1, std::max(box.x1, box.x0 + 2) + 1, box.y1 + 1, colour,
                    thickness);
  }

 private:
  /// Prediction beside measurement is told apart by its outline.
  bool outlined(int trace) const {
    return model_.compares() && model_.traces()[static_cast<std::size_t>(trace)].trace.simulated;
  }

  Canvas& canvas_;
  const ViewModel& model_;
  const RowLayout& rows_;
  float scale_;
};

}  // namespace

void paint_timeline(Canvas& canvas, const ViewModel& model, const RowLayout& rows,
                    const DrawList& list, const Viewport& viewport, float top, float bottom) {
  canvas.clip(viewport.left, top, viewport.right, bottom);
  TimelinePainter painter(canvas, model, rows);
  painter.backgrounds(viewport);
  for (const Tick& tick : list.ticks) {
    const float x = std::round(viewport.x_of(tick.time));
    canvas.fill(x, top, x + 1.0F, bottom, kGrid);
  }
  for (const GapRect& gap : list.gaps) painter.gap(gap);
  for (const Cell& cell : list.cells) painter.cell(cell);
  for (const Box& edge : list.pass_edges) {
    const float x = std::round(edge.x0);
    canvas.fill(x, edge.y0, x + std::round(canvas.scale()), edge.y1, kBackground);
  }
  for (float x : list.step_lines) canvas.line(x, top, x, bottom, kAccent, 1.0F);
  for (const Box& box : list.critical) painter.box(box, kCritical, 2.0F);
  for (const GapRect& gap : list.gaps) painter.gap_letter(gap);
  for (const Label& label : list.labels) painter.label(label);
  for (const Arrow& arrow : list.arrows) painter.arrow(arrow);
  if (list.selection) painter.box(*list.selection, kAccent, 2.0F);
  canvas.end_clip();
}

void paint_time_axis(Canvas& canvas, const DrawList& list, const Viewport& viewport, float top,
                     float bottom) {
  const float y = 0.5F * (top + bottom);
  for (const Tick& tick : list.ticks) {
    const float x = std::round(viewport.x_of(tick.time));
    canvas.fill(x, bottom - 4.0F * canvas.scale(), x + 1.0F, bottom, kFaintText);
    const float half = 0.5F * canvas.small_text_width(tick.label);
    const float centre = std::clamp(x, viewport.left + half, viewport.right - half);
    canvas.small_text(centre, y - 1.0F, Align::Centre, kFaintText, tick.label);
  }
}

void paint_row_labels(Canvas& canvas, const ViewModel& model, const RowLayout& rows, float left,
                      float right) {
  const float scale = canvas.scale();
  const float name_x = left + 8.0F * scale;
  const float share_x = right - 6.0F * scale;
  // Where blocks are lower than text, only every so many are labelled.
  std::optional<float> free_from;
  for (const RankBlock& block : rows.blocks) {
    const float height = block.bottom - block.top;
    const bool roomy = height >= 2.0F * canvas.text_height();
    const float middle = 0.5F * (block.top + block.bottom);
    const float needed = roomy ? canvas.text_height() : canvas.small_text_height();
    if (free_from && middle - 0.5F * needed < *free_from) continue;
    free_from = middle + 0.5F * needed;
    if (roomy) {
      canvas.text(name_x, block.top + 0.5F * canvas.text_height() + 2.0F * scale, Align::Left,
                  kText, block.label);
    } else {
      canvas.small_text(name_x, middle, Align::Left, kText, block.label);
    }
    std::optional<float> share_free_from;
    for (std::size_t i = 0; i < block.bubbles.size(); ++i) {
      const RankBlock::Share& share = block.bubbles[i];
      if (rows.detail == Detail::Streams) continue;  // There the streams' names stand.
      const float y = block.bubbles.size() > 1 && !roomy ? middle : share.middle;
      if (share_free_from && y < *share_free_from) continue;
      share_free_from = y + canvas.small_text_height();
      canvas.small_text(share_x, y, Align::Right, kFaintText, share.text);
    }
  }
  if (rows.detail != Detail::Streams) return;
  for (const RankBlock& block : rows.blocks) {
    for (std::size_t i = 0; i < block.bubbles.size(); ++i) {
      const float y = block.top + (1.6F + static_cast<float>(i) * 1.2F) * canvas.text_height();
      std::string who = "bubble ";
      if (model.compares()) who = model.traces()[i].trace.simulated ? "pred. " : "meas. ";
      if (y + 0.5F * canvas.small_text_height() > block.bottom) continue;
      canvas.small_text(name_x, y + 2.0F * scale, Align::Left, kFaintText,
                        who + block.bubbles[i].text);
    }
  }
  for (const Row& row : rows.rows) {
    if (row.height < canvas.small_text_height() - 2.0F) continue;
    canvas.small_text(share_x, 0.5F * (row.top + row.bottom()), Align::Right, kFaintText,
                      row.label);
  }
}

}  // namespace orrery::viz
