#pragma once
// Rectangles, lines and text in our colours on an ImGui draw list.

#include <imgui.h>

#include <string>

#include "viz/palette.h"

namespace orrery::viz {

/// The two sizes of text. Owned by ImGui's font atlas.
struct Fonts {
  ImFont* normal = nullptr;
  ImFont* small = nullptr;
  float scale = 1.0F;  ///< Of all sizes; 1 at 1280 x 720.
};

/// Adds the fonts for a window of this size to the current ImGui context: DejaVu Sans where Debian
/// has it, else ImGui's own.
Fonts load_fonts(float width, float height);

enum class Align { Left, Centre, Right };

class Canvas {
 public:
  Canvas(ImDrawList& list, const Fonts& fonts) : list_(list), fonts_(fonts) {}

  float scale() const { return fonts_.scale; }
  void fill(float x0, float y0, float x1, float y1, Colour);
  void outline(float x0, float y0, float x1, float y1, Colour, float thickness);
  void line(float x0, float y0, float x1, float y1, Colour, float thickness);
  /// Diagonal lines within a rectangle, `spacing` pixels apart.
  void hatch(float x0, float y0, float x1, float y1, Colour, float spacing);
  void triangle(float x0, float y0, float x1, float y1, float x2, float y2, Colour);

  /// Text whose vertical middle is y; x is its left end, middle or right end.
  void text(float x, float y, Align, Colour, const std::string&);
  void small_text(float x, float y, Align, Colour, const std::string&);
  float text_width(const std::string&) const;
  float small_text_width(const std::string&) const;
  float text_height() const;
  float small_text_height() const;

  void clip(float x0, float y0, float x1, float y1);
  void end_clip();

 private:
  void write(ImFont*, float x, float y, Align, Colour, const std::string&);

  ImDrawList& list_;
  Fonts fonts_;
};

}  // namespace orrery::viz
