#include "viz/screenshot.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <map>

#include "core/error.h"
#include "tests/core/pipeline_trace.h"
#include "viz/palette.h"

namespace orrery::viz {
namespace {

core::Trace predicted() {
  return core::pipeline_trace({.stages = 2, .microbatches = 4, .message = 0.1, .optimizer = 0.5});
}
core::Trace measured() {
  return core::pipeline_trace({.stages = 2,
                               .microbatches = 4,
                               .steps = 2,
                               .message = 0.1,
                               .optimizer = 0.5,
                               .jitter = 0.1,
                               .simulated = false});
}

std::map<std::array<std::uint8_t, 3>, int> colours(const Image& image) {
  std::map<std::array<std::uint8_t, 3>, int> count;
  for (std::size_t i = 0; i < image.rgba.size(); i += 4) {
    ++count[{image.rgba[i], image.rgba[i + 1], image.rgba[i + 2]}];
  }
  return count;
}

int pixels_of(const Image& image, Colour c) {
  const auto all = colours(image);
  const auto found = all.find({c.red, c.green, c.blue});
  return found == all.end() ? 0 : found->second;
}

TEST(Screenshot, TwoRendersAreBitIdentical) {
  for (const auto& traces : {std::vector{predicted()}, std::vector{predicted(), measured()}}) {
    EXPECT_EQ(render(traces, {}).rgba, render(traces, {}).rgba);
  }
}

// A rank's compute row is about 40 px high and half of it backward: thousands of pixels.
TEST(Screenshot, PaintsTheKindsInTheirColours) {
  const Image image = render({predicted()}, {});
  EXPECT_EQ(image.rgba.size(), 4u * 1280 * 720);
  EXPECT_GT(pixels_of(image, colour_of(core::SpanKind::Forward)), 2000);
  EXPECT_GT(pixels_of(image, colour_of(core::SpanKind::Backward)), 4000);
  EXPECT_GT(pixels_of(image, colour_of(core::SpanKind::OptimizerStep)), 200);
  EXPECT_EQ(pixels_of(image, colour_of(core::SpanKind::Serve)), 0);
}

TEST(Screenshot, EverySizeIsFilled) {
  for (auto [width, height] : {std::pair(320, 320), std::pair(1280, 720), std::pair(2560, 1440)}) {
    const Image image = render({predicted()}, {.width = width, .height = height});
    EXPECT_EQ(image.width, width);
    // Nothing of the initial black but what text and hatches mix: the whole window is painted.
    EXPECT_LT(pixels_of(image, {0, 0, 0}), width * height / 100);
  }
}

TEST(Screenshot, AnImpossibleSizeIsBadInput) {
  EXPECT_THROW(render({predicted()}, {.width = 0}), core::ConfigError);
  EXPECT_THROW(render({predicted()}, {.height = 1'000'000}), core::ConfigError);
}

TEST(Screenshot, AnEmptyTraceIsAPicture) { EXPECT_EQ(render({core::Trace{}}, {}).width, 1280); }

// Forward [0, 1] alone in view: no backward is painted but in legend and panel.
TEST(Screenshot, ShowsTheRangeAskedFor) {
  const Image whole = render({predicted()}, {});
  const Image part =
      render({predicted()}, {.range = core::Interval{core::Seconds(0.1), core::Seconds(0.9)}});
  EXPECT_LT(pixels_of(part, colour_of(core::SpanKind::Backward)),
            pixels_of(whole, colour_of(core::SpanKind::Backward)) / 4);
}

TEST(Screenshot, WritesAPng) {
  const auto path = std::filesystem::path(testing::TempDir()) /
                    ("screenshot_" + std::to_string(getpid()) + ".png");
  screenshot({predicted()}, path, {});
  std::string magic(8, '\0');
  std::ifstream(path, std::ios::binary).read(magic.data(), 8);
  EXPECT_EQ(magic, "\x89PNG\r\n\x1a\n");
  std::filesystem::remove(path);
  EXPECT_THROW(screenshot({predicted()}, "/nonexistent/a.png", {}), core::SystemError);
}

}  // namespace
}  // namespace orrery::viz
