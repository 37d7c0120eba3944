#include "viz/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/quantity_text.h"
#include "viz/paint_timeline.h"
#include "viz/summary.h"

namespace orrery::viz {

namespace {

std::string about(const TraceView& view, const char* key) {
  const auto found = view.trace.about.find(key);
  return found == view.trace.about.end() ? "" : found->second;
}

/// "gpt2 · dp2 pp2 · a100-8": what the traces say of themselves.
std::string title(const ViewModel& model) {
  std::string text;
  const TraceView& view = model.traces().front();
  for (const char* key : {"model", "plan", "cluster"}) {
    const std::string value = about(view, key);
    if (value.empty()) continue;
    if (!text.empty()) text += "  ·  ";
    text += value;
  }
  return text;
}

void paint_header(Canvas& canvas, const ViewModel& model, const FrameAreas& a) {
  const float y = 0.5F * a.header_bottom;
  canvas.fill(0, 0, a.width, a.header_bottom, kPanel);
  std::string what;
  std::size_t spans = 0;
  for (const TraceView& view : model.traces()) {
    if (!what.empty()) what += " above ";
    what += view.trace.simulated ? "predicted" : "measured";
    what += " " + core::text(view.shown_step.length());
    spans += view.trace.spans.size();
  }
  const std::string right =
      fmt::format("{}  ·  {} ranks  ·  {} spans", what, model.ranks().size(), spans);
  canvas.text(a.width - 8 * a.scale, y, Align::Right, kFaintText, right);
  canvas.clip(0, 0, a.width - 24 * a.scale - canvas.text_width(right), a.header_bottom);
  canvas.text(8 * a.scale, y, Align::Left, kText, "Orrery");
  canvas.text(16 * a.scale + canvas.text_width("Orrery"), y, Align::Left, kFaintText, title(model));
  canvas.end_clip();
}

void paint_overview(Canvas& canvas, const ViewModel& model, const FrameAreas& a) {
  const Viewport whole{a.labels_right, a.panel_left, model.bounds()};
  canvas.fill(whole.left, a.overview_top, whole.right, a.overview_bottom, kPanel);
  const auto traces = static_cast<float>(model.traces().size());
  const float height = (a.overview_bottom - a.overview_top) / traces;
  for (std::size_t t = 0; t < model.traces().size(); ++t) {
    const TraceView& view = model.traces()[t];
    const float bottom = a.overview_top + static_cast<float>(t + 1) * height;
    const float x0 = whole.x_of(view.extent.begin);
    const float bin = (whole.x_of(view.extent.end) - x0) / static_cast<float>(view.profile.size());
    for (std::size_t b = 0; b < view.profile.size(); ++b) {
      const float left = x0 + static_cast<float>(b) * bin;
      canvas.fill(
          left, bottom - view.profile[b] * (height - 2.0F), left + bin, bottom,
          mix(colour_of(core::SpanKind::Forward), kPanel, t == 0 && traces > 1 ? 0.5 : 0.9));
    }
  }
  const float x0 = std::max(whole.left, whole.x_of(model.range().begin));
  const float x1 = std::min(whole.right, whole.x_of(model.range().end));
  const Colour shade{0, 0, 0, 120};
  canvas.fill(whole.left, a.overview_top, x0, a.overview_bottom, shade);
  canvas.fill(x1, a.overview_top, whole.right, a.overview_bottom, shade);
  canvas.outline(x0, a.overview_top, std::max(x1, x0 + 2), a.overview_bottom, kAccent, 1.0F);
  const float middle = 0.5F * (a.overview_top + a.overview_bottom);
  canvas.small_text(a.labels_right - 6 * a.scale, middle, Align::Right, kFaintText,
                    "ranks computing");
}

// ---- the side panel ------------------------------------------------------------------------

class PanelPainter {
 public:
  PanelPainter(Canvas& canvas, const ViewModel& model, const FrameAreas& a)
      : canvas_(canvas),
        columns_(summary_columns(model)),
        left_(a.panel_left + 10 * a.scale),
        right_(a.width - 10 * a.scale),
        y_(a.header_bottom),
        bottom_(a.legend_top),
        scale_(a.scale),
        line_(std::round(1.32F * canvas.text_height())) {
    canvas_.fill(a.panel_left, a.header_bottom, a.width, a.legend_top, kPanel);
    y_ += 4 * a.scale;
  }

  void paint(const std::vector<SummaryLine>& lines) {
    bool columns_named = false;
    for (const SummaryLine& line : lines) {
      if (y_ + line_ > bottom_) return;
      if (line.kind == SummaryLine::Kind::Heading) {
        heading(line);
        if (!columns_named) name_columns();
        columns_named = true;
      } else {
        row(line);
      }
    }
  }

 private:
  float column_right(std::size_t column, std::size_t columns) const {
    const float width = columns > 2 ? 62 * scale_ : 68 * scale_;
    return right_ - static_cast<float>(columns - 1 - column) * width;
  }

  void heading(const SummaryLine& line) {
    y_ += 0.35F * line_;
    canvas_.text(left_, y_ + 0.5F * line_, Align::Left, kText, line.label);
    canvas_.fill(left_, y_ + line_, right_, y_ + line_ + 1, kGrid);
    y_ += 1.15F * line_;
  }

  void name_columns() {
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      canvas_.small_text(column_right(c, columns_.size()), y_ + 0.45F * line_, Align::Right,
                         kFaintText, columns_[c]);
    }
    y_ += 0.9F * line_;
  }

  void row(const SummaryLine& line) {
    const bool sub = line.kind == SummaryLine::Kind::SubPart;
    const float middle = y_ + 0.5F * line_;
    float x = left_ + (sub ? 22 * scale_ : 0);
    if (line.swatch) {
      const float side = 4.5F * scale_;
      canvas_.fill(left_, middle - side, left_ + 2 * side, middle + side, *line.swatch);
    }
    if (!sub && line.kind == SummaryLine::Kind::Part) x = left_ + 15 * scale_;
    if (line.kind == SummaryLine::Kind::Text && line.swatch) x = left_ + 15 * scale_;
    const std::size_t columns = std::max(line.values.size(), std::size_t{1});
    const float label_end =
        line.values.empty()
            ? right_
            : column_right(0, columns) - canvas_.text_width(line.values.front()) - 4 * scale_;
    canvas_.clip(x, y_, label_end, y_ + line_);
    if (sub || line.kind == SummaryLine::Kind::Text) {
      canvas_.small_text(x, middle, Align::Left, sub ? kFaintText : kText, line.label);
    } else {
      canvas_.text(x, middle, Align::Left, kText, line.label);
    }
    canvas_.end_clip();
    for (std::size_t c = 0; c < line.values.size(); ++c) {
      canvas_.small_text(column_right(c, std::max(columns, columns_.size())), middle, Align::Right,
                         sub ? kFaintText : kText, line.values[c]);
    }
    y_ += sub ? 0.9F * line_ : line_;
    if (line.kind == SummaryLine::Kind::Part && line.swatch) bars(line);
  }

  void bars(const SummaryLine& line) {
    const float x0 = left_ + 15 * scale_;
    for (std::size_t t = 0; t < line.shares.size(); ++t) {
      const float width = static_cast<float>(std::min(1.0, line.shares[t])) * (right_ - x0);
      const float height = 3 * scale_;
      canvas_.fill(x0, y_, right_, y_ + height, kRow);
      const bool predicted = line.shares.size() > 1 && t == 0;
      canvas_.fill(x0, y_, x0 + std::max(1.0F, width), y_ + height,
                   predicted ? mix(*line.swatch, kPanel, 0.55) : *line.swatch);
      y_ += height + 1;
    }
    y_ += 2 * scale_;
  }

  Canvas& canvas_;
  std::vector<std::string> columns_;
  float left_, right_, y_, bottom_, scale_, line_;
};

// ---- the legend ----------------------------------------------------------------------------

void paint_legend(Canvas& canvas, const ViewModel& model, const FrameAreas& a) {
  canvas.fill(0, a.legend_top, a.width, a.height, kPanel);
  const float y = 0.5F * (a.legend_top + a.height);
  const float side = 5.0F * a.scale;
  float x = 8 * a.scale;
  const auto entry = [&](Colour colour, const std::string& text, bool hatched) {
    canvas.fill(x, y - side, x + 2 * side, y + side, colour);
    if (hatched) canvas.hatch(x, y - side, x + 2 * side, y + side, kText, 4 * a.scale);
    x += 2 * side + 4 * a.scale;
    canvas.small_text(x, y, Align::Left, kText, text);
    x += canvas.small_text_width(text) + 12 * a.scale;
  };
  std::vector<bool> used(core::kSpanKinds, false);
  for (const TraceView& view : model.traces()) {
    for (const core::Span& span : view.trace.spans)
      used[static_cast<std::size_t>(span.kind)] = true;
  }
  for (int k = 0; k < core::kSpanKinds; ++k) {
    const auto kind = static_cast<core::SpanKind>(k);
    if (!used[static_cast<std::size_t>(k)]) continue;
    std::string name(core::span_kind_name(kind));
    const std::size_t word = name.find("communication");
    if (word != std::string::npos) name.replace(word, std::string::npos, "comm");
    entry(colour_of(kind), fmt::format("{} {}", short_name(kind), name),
          kind == core::SpanKind::Recompute);
  }
  entry(kBubble, "bubble, with its cause", true);
  if (model.compares()) {
    canvas.small_text(x, y, Align::Left, kText, "dim, outlined: predicted");
    x += canvas.small_text_width("dim, outlined: predicted") + 12 * a.scale;
  }
  const std::string keys = "W S zoom   A D pan   F fit   G gap   C critical   N P step   ? keys";
  if (x + canvas.small_text_width(keys) < a.width) {
    canvas.small_text(a.width - 8 * a.scale, y, Align::Right, kFaintText, keys);
  }
}

void paint_hidden_ranks(Canvas& canvas, const RowLayout& rows, const FrameAreas& a) {
  if (rows.ranks_below == 0 && rows.ranks_above == 0) return;
  canvas.small_text(a.labels_right - 6 * a.scale, a.rows_bottom + 6 * a.scale, Align::Right,
                    kAccent,
                    fmt::format("{} ranks above, {} below", rows.ranks_above, rows.ranks_below));
}

}  // namespace

FrameAreas frame_areas(float width, float height, float scale, bool compares) {
  FrameAreas a{};
  a.width = width;
  a.height = height;
  a.scale = scale;
  a.header_bottom = std::round(24 * scale);
  a.overview_top = a.header_bottom + std::round(4 * scale);
  a.overview_bottom = a.overview_top + std::round(30 * scale);
  a.axis_top = a.overview_bottom + std::round(2 * scale);
  a.axis_bottom = a.axis_top + std::round(19 * scale);
  a.legend_top = height - std::round(24 * scale);
  a.rows_top = a.axis_bottom + std::round(3 * scale);
  a.rows_bottom = a.legend_top - std::round(10 * scale);
  a.labels_right = std::round(std::min(136 * scale, 0.3F * width));
  a.panel_left = width - std::round(std::min((compares ? 318 : 268) * scale, 0.4F * width));
  return a;
}

std::vector<std::string> draw_frame(Canvas& canvas, const ViewModel& model, const FrameAreas& a,
                                    std::optional<ImVec2> mouse) {
  canvas.fill(0, 0, a.width, a.height, kBackground);
  const Viewport viewport{a.labels_right, a.panel_left - 2 * a.scale, model.range()};
  const RowLayout rows = arrange_rows(model, a.rows_top, a.rows_bottom, a.scale);
  std::optional<SpanRef> hovered;
  std::vector<std::string> tooltip;
  if (mouse) {
    hovered = span_at(model, rows, viewport, mouse->x, mouse->y);
    if (hovered) {
      tooltip =
          describe_span(model.traces()[static_cast<std::size_t>(hovered->trace)], hovered->span);
    } else if (const auto gap = gap_at(model, rows, viewport, mouse->x, mouse->y)) {
      tooltip = describe_gap(model.traces()[static_cast<std::size_t>(gap->first)], gap->second);
    }
  }
  const DrawList list = layout_timeline(model, rows, viewport, a.scale, hovered);
  paint_timeline(canvas, model, rows, list, viewport, a.axis_bottom, a.rows_bottom + 6 * a.scale);
  paint_time_axis(canvas, list, viewport, a.axis_top, a.axis_bottom);
  paint_row_labels(canvas, model, rows, 0, a.labels_right);
  paint_hidden_ranks(canvas, rows, a);
  paint_overview(canvas, model, a);
  paint_header(canvas, model, a);
  PanelPainter(canvas, model, a).paint(summarise(model));
  paint_legend(canvas, model, a);
  return tooltip;
}

}  // namespace orrery::viz
