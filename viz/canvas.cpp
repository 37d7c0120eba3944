#include "viz/canvas.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace orrery::viz {

namespace {

// Of Debian's fonts-dejavu-core.
constexpr const char* kFontFile = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf";
constexpr float kNormalSize = 13;
constexpr float kSmallSize = 10.5F;

ImU32 packed(Colour c) { return IM_COL32(c.red, c.green, c.blue, c.alpha); }

float width_of(ImFont* font, const std::string& text) {
  return font->CalcTextSizeA(font->FontSize, 1e9F, 0.0F, text.c_str()).x;
}

/// Text grows more slowly than the window, so that a larger window also shows more.
float scale_for(float width, float height) {
  const float larger = std::min(width / 1280.0F, height / 720.0F);
  return larger <= 1.0F ? 1.0F : 1.0F + 0.6F * (larger - 1.0F);
}

}  // namespace

Fonts load_fonts(float width, float height) {
  Fonts fonts;
  fonts.scale = scale_for(width, height);
  ImFontAtlas& atlas = *ImGui::GetIO().Fonts;
  static constexpr ImWchar kGlyphs[] = {0x20, 0xFF, 0x2026, 0x2026, 0};
  const auto add = [&](float size) {
    size = std::round(size * fonts.scale);
    if (std::filesystem::exists(kFontFile)) {
      return atlas.AddFontFromFileTTF(kFontFile, size, nullptr, kGlyphs);
    }
    ImFontConfig config;
    config.SizePixels = size;
    return atlas.AddFontDefault(&config);
  };
  fonts.normal = add(kNormalSize);
  fonts.small = add(kSmallSize);
  return fonts;
}

void Canvas::fill(float x0, float y0, float x1, float y1, Colour colour) {
  list_.AddRectFilled({x0, y0}, {x1, y1}, packed(colour));
}

void Canvas::outline(float x0, float y0, float x1, float y1, Colour colour, float thickness) {
  const float t = std::min({thickness, 0.5F * (x1 - x0), 0.5F * (y1 - y0)});
  fill(x0, y0, x1, y0 + t, colour);
  fill(x0, y1 - t, x1, y1, colour);
  fill(x0, y0 + t, x0 + t, y1 - t, colour);
  fill(x1 - t, y0 + t, x1, y1 - t, colour);
}

void Canvas::line(float x0, float y0, float x1, float y1, Colour colour, float thickness) {
  list_.AddLine({x0, y0}, {x1, y1}, packed(colour), thickness);
}

void Canvas::hatch(float x0, float y0, float x1, float y1, Colour colour, float spacing) {
  // Lines x + y = k · spacing, so that neighbouring rectangles continue each other's.
  const float first = std::ceil((x0 + y0) / spacing) * spacing;
  for (float sum = first; sum < x1 + y1; sum += spacing) {
    const float left = std::max(x0, sum - y1);
    const float right = std::min(x1, sum - y0);
    if (right - left > 0.5F) line(left, sum - left, right, sum - right, colour, 1.0F);
  }
}

void Canvas::triangle(float x0, float y0, float x1, float y1, float x2, float y2, Colour colour) {
  list_.AddTriangleFilled({x0, y0}, {x1, y1}, {x2, y2}, packed(colour));
}

void Canvas::write(ImFont* font, float x, float y, Align align, Colour colour,
                   const std::string& text) {
  const float width = width_of(font, text);
  if (align == Align::Centre) x -= 0.5F * width;
  if (align == Align::Right) x -= width;
  list_.AddText(font, font->FontSize, {std::round(x), std::round(y - 0.5F * font->FontSize)},
                packed(colour), text.c_str());
}

void Canvas::text(float x, float y, Align align, Colour colour, const std::string& text) {
  write(fonts_.normal, x, y, align, colour, text);
}
void Canvas::small_text(float x, float y, Align align, Colour colour, const std::string& text) {
  write(fonts_.small, x, y, align, colour, text);
}
float Canvas::text_width(const std::string& text) const { return width_of(fonts_.normal, text); }
float Canvas::small_text_width(const std::string& text) const {
  return width_of(fonts_.small, text);
}
float Canvas::text_height() const { return fonts_.normal->FontSize; }
float Canvas::small_text_height() const { return fonts_.small->FontSize; }

void Canvas::clip(float x0, float y0, float x1, float y1) {
  list_.PushClipRect({x0, y0}, {x1, y1}, true);
}
void Canvas::end_clip() { list_.PopClipRect(); }

}  // namespace orrery::viz
