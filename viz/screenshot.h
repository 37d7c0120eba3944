#pragma once
// Pictures of the viewer without a display.

#include <filesystem>
#include <optional>
#include <vector>

#include "core/trace.h"
#include "core/trace/rank_timeline.h"
#include "viz/image.h"

namespace orrery::viz {

struct ScreenshotOptions {
  int width = 1280;
  int height = 720;
  std::optional<core::Interval> range =
      std::nullopt;  ///< From the shown step's start; the whole step otherwise.
  std::optional<int> step = std::nullopt;  ///< Of every trace; the last otherwise.
  bool critical_path = false;
};

/// Least and most pixels of a side.
inline constexpr int kLeastSide = 320;
inline constexpr int kMostSide = 16384;

/// The picture of one trace, or of two with the first above the second.
/// @throws ConfigError for a size that is not kLeastSide to kMostSide.
Image render(std::vector<core::Trace>, const ScreenshotOptions&);

/// Writes render() as PNG; the file appears complete or not at all.
/// @throws ConfigError as render(); SystemError naming the path.
void screenshot(const std::vector<core::Trace>&, const std::filesystem::path& png,
                const ScreenshotOptions&);

}  // namespace orrery::viz
