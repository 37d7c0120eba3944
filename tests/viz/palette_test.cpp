#include "viz/palette.h"

#include <gtest/gtest.h>

#include "viz/time_axis.h"

namespace orrery::viz {
namespace {

// WCAG 2.1 level AA asks for 4.5:1.
TEST(Palette, TextIsReadableOnEveryKind) {
  for (int k = 0; k < core::kSpanKinds; ++k) {
    const Colour colour = colour_of(static_cast<core::SpanKind>(k));
    EXPECT_GE(contrast(text_on(colour), colour), 4.5) << k;
  }
  EXPECT_GE(contrast(kText, kBackground), 4.5);
  EXPECT_GE(contrast(kFaintText, kPanel), 4.5);
}

// White on black is 21:1 by definition: (1 + 0.05) / (0 + 0.05).
TEST(Palette, ContrastOfBlackAndWhite) {
  EXPECT_NEAR(contrast({0, 0, 0}, {255, 255, 255}), 21.0, 1e-9);
}

TEST(TimeAxis, TicksAreRoundAndWithinTheRange) {
  const auto ticks = time_ticks({core::Seconds(0.0102), core::Seconds(0.0161)}, 6);
  ASSERT_EQ(ticks.size(), 6u);  // 11, 12, ... 16 ms
  EXPECT_EQ(ticks[0].label, "11 ms");
  EXPECT_NEAR(ticks[5].time.value, 0.016, 1e-12);
}

TEST(TimeAxis, NeverMoreTicksThanAskedFor) {
  for (double length = 1e-9; length < 1e4; length *= 1.7) {
    for (int most : {1, 3, 8}) {
      const core::Interval range{core::Seconds(0.3), core::Seconds(0.3 + length)};
      EXPECT_LE(static_cast<int>(time_ticks(range, most).size()), most + 1);
    }
  }
  EXPECT_TRUE(time_ticks({core::Seconds(1), core::Seconds(1)}, 5).empty());
}

}  // namespace
}  // namespace orrery::viz
