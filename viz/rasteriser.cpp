#include "viz/rasteriser.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace orrery::viz {

namespace {

using Pixel = std::array<float, 4>;  // Red, green, blue, alpha, 0 to 255.

Pixel unpack(ImU32 colour) {
  return {static_cast<float>(colour >> IM_COL32_R_SHIFT & 0xFF),
          static_cast<float>(colour >> IM_COL32_G_SHIFT & 0xFF),
          static_cast<float>(colour >> IM_COL32_B_SHIFT & 0xFF),
          static_cast<float>(colour >> IM_COL32_A_SHIFT & 0xFF)};
}

/// The font atlas, sampled between texels.
class Texture {
 public:
  explicit Texture(ImFontAtlas& atlas) { atlas.GetTexDataAsAlpha8(&alpha_, &width_, &height_); }

  /// Share of alpha at (u, v); ImGui's atlas is white everywhere.
  float alpha(float u, float v) const {
    const float x = u * static_cast<float>(width_) - 0.5F;
    const float y = v * static_cast<float>(height_) - 0.5F;
    const float fx = x - std::floor(x);
    const float fy = y - std::floor(y);
    const int x0 = static_cast<int>(std::floor(x));
    const int y0 = static_cast<int>(std::floor(y));
    const float top = (1 - fx) * texel(x0, y0) + fx * texel(x0 + 1, y0);
    const float bottom = (1 - fx) * texel(x0, y0 + 1) + fx * texel(x0 + 1, y0 + 1);
    return ((1 - fy) * top + fy * bottom) / 255.0F;
  }

 private:
  float texel(int x, int y) const {
    x = std::clamp(x, 0, width_ - 1);
    y = std::clamp(y, 0, height_ - 1);
    return alpha_[y * width_ + x];
  }

  unsigned char* alpha_ = nullptr;
  int width_ = 0;
  int height_ = 0;
};

struct Clip {
  int x0, y0, x1, y1;
};

class Rasteriser {
 public:
  Rasteriser(const Texture& texture, Image& image) : texture_(texture), image_(image) {}

  void triangle(const ImDrawVert& a, ImDrawVert b, ImDrawVert c, const Clip& clip) const {
    float area = edge(a.pos, b.pos, c.pos);
    if (area == 0.0F) return;
    if (area < 0.0F) {
      std::swap(b, c);
      area = -area;
    }
    const auto [min_x, max_x] = std::minmax({a.pos.x, b.pos.x, c.pos.x});
    const auto [min_y, max_y] = std::minmax({a.pos.y, b.pos.y, c.pos.y});
    // A pixel is drawn when its centre lies inside.
    const int x0 = std::max(clip.x0, static_cast<int>(std::ceil(min_x - 0.5F)));
    const int x1 = std::min(clip.x1, static_cast<int>(std::floor(max_x + 0.5F)) + 1);
    const int y0 = std::max(clip.y0, static_cast<int>(std::ceil(min_y - 0.5F)));
    const int y1 = std::min(clip.y1, static_cast<int>(std::floor(max_y + 0.5F)) + 1);
    const bool flat = a.col == b.col && b.col == c.col && same_texel(a, b, c);
    const float flat_alpha = flat ? texture_.alpha(a.uv.x, a.uv.y) : 0.0F;
    for (int y = y0; y < y1; ++y) {
      for (int x = x0; x < x1; ++x) {
        const ImVec2 p{static_cast<float>(x) + 0.5F, static_cast<float>(y) + 0.5F};
        const float wa = edge(b.pos, c.pos, p);
        const float wb = edge(c.pos, a.pos, p);
        const float wc = edge(a.pos, b.pos, p);
        if (!inside(wa, b.pos, c.pos) || !inside(wb, c.pos, a.pos) || !inside(wc, a.pos, b.pos)) {
          continue;
        }
        if (flat) {
          blend(x, y, unpack(a.col), flat_alpha);
          continue;
        }
        const float sa = wa / area;
        const float sb = wb / area;
        const float sc = 1.0F - sa - sb;
        const float alpha = texture_.alpha(sa * a.uv.x + sb * b.uv.x + sc * c.uv.x,
                                           sa * a.uv.y + sb * b.uv.y + sc * c.uv.y);
        const Pixel ca = unpack(a.col);
        const Pixel cb = unpack(b.col);
        const Pixel cc = unpack(c.col);
        Pixel colour;
        for (std::size_t k = 0; k < 4; ++k) colour[k] = sa * ca[k] + sb * cb[k] + sc * cc[k];
        blend(x, y, colour, alpha);
      }
    }
  }

 private:
  static float edge(ImVec2 a, ImVec2 b, ImVec2 p) {
    return (b.x - a.x) * (p.y - a.y) - (b.y - a.y) * (p.x - a.x);
  }
  /// On an edge shared by two triangles exactly one of them draws: the one to its top or left.
  static bool inside(float weight, ImVec2 from, ImVec2 to) {
    if (weight != 0.0F) return weight > 0.0F;
    return to.y < from.y || (to.y == from.y && to.x > from.x);
  }
  static bool same_texel(const ImDrawVert& a, const ImDrawVert& b, const ImDrawVert& c) {
    return a.uv.x == b.uv.x && a.uv.y == b.uv.y && b.uv.x == c.uv.x && b.uv.y == c.uv.y;
  }

  void blend(int x, int y, const Pixel& colour, float texture_alpha) const {
    const float alpha = colour[3] / 255.0F * texture_alpha;
    std::uint8_t* out =
        &image_.rgba[4 * (static_cast<std::size_t>(y) * static_cast<std::size_t>(image_.width) +
                          static_cast<std::size_t>(x))];
    for (std::size_t k = 0; k < 3; ++k) {
      const float mixed = alpha * colour[k] + (1.0F - alpha) * static_cast<float>(out[k]);
      out[k] = static_cast<std::uint8_t>(std::clamp(mixed + 0.5F, 0.0F, 255.0F));
    }
  }

  const Texture& texture_;
  Image& image_;
};

Clip clip_of(const ImDrawCmd& command, ImVec2 origin, const Image& image) {
  const auto limit = [](float v, int most) {
    return std::clamp(static_cast<int>(std::lround(v)), 0, most);
  };
  return {limit(command.ClipRect.x - origin.x, image.width),
          limit(command.ClipRect.y - origin.y, image.height),
          limit(command.ClipRect.z - origin.x, image.width),
          limit(command.ClipRect.w - origin.y, image.height)};
}

}  // namespace

Image rasterise(const ImDrawData& data, ImFontAtlas& atlas, int width, int height) {
  Image image{width, height, {}};
  image.rgba.assign(4 * static_cast<std::size_t>(width) * static_cast<std::size_t>(height), 0);
  for (std::size_t i = 3; i < image.rgba.size(); i += 4) image.rgba[i] = 255;
  const Texture texture(atlas);
  const Rasteriser rasteriser(texture, image);
  for (int l = 0; l < data.CmdListsCount; ++l) {
    const ImDrawList& list = *data.CmdLists[l];
    for (const ImDrawCmd& command : list.CmdBuffer) {
      const Clip clip = clip_of(command, data.DisplayPos, image);
      for (unsigned i = 0; i + 2 < command.ElemCount; i += 3) {
        const auto vertex = [&](unsigned k) -> const ImDrawVert& {
          const int index = list.IdxBuffer[static_cast<int>(command.IdxOffset + i + k)];
          return list.VtxBuffer[static_cast<int>(command.VtxOffset) + index];
        };
        rasteriser.triangle(vertex(0), vertex(1), vertex(2), clip);
      }
    }
  }
  return image;
}

}  // namespace orrery::viz
