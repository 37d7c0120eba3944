#pragma once
// Colours and short names. Kinds are told apart by letter and pattern too, never by red and green.

#include <cstdint>
#include <string_view>

#include "core/trace.h"
#include "core/trace/gap.h"

namespace orrery::viz {

struct Colour {
  std::uint8_t red = 0, green = 0, blue = 0, alpha = 255;
  bool operator==(const Colour&) const = default;
};

/// @source Okabe and Ito, "Color Universal Design", 2008; for context, gathers, parameter servers,
/// serving and loading Paul Tol, "Colour schemes", SRON/EPS/TN/09-002, 2021 (muted, light).
Colour colour_of(core::SpanKind);

/// "F", "B", "TP": what is written into a span and the legend.
std::string_view short_name(core::SpanKind);

/// Black or white, whichever has the larger contrast on `background`.
/// @source WCAG 2.1, relative luminance and contrast ratio.
Colour text_on(Colour background);

/// (L1 + 0.05) / (L2 + 0.05) of the relative luminances, 1 to 21.
double contrast(Colour, Colour);

/// `share` of a over b.
Colour mix(Colour a, Colour b, double share);

inline constexpr Colour kBackground{24, 26, 31};
inline constexpr Colour kPanel{33, 36, 43};
inline constexpr Colour kRow{40, 43, 51};
inline constexpr Colour kGrid{62, 66, 76};
inline constexpr Colour kText{232, 234, 238};
inline constexpr Colour kFaintText{160, 165, 175};
inline constexpr Colour kBubble{52, 56, 66};
inline constexpr Colour kBubbleHatch{112, 118, 132};
inline constexpr Colour kCritical{255, 255, 255};
inline constexpr Colour kAccent{240, 228, 66};
inline constexpr Colour kOther{110, 115, 125};

}  // namespace orrery::viz
