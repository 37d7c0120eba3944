#pragma once
// The whole window: header, overview, time axis, rows, side panel, legend.

#include <optional>
#include <string>

#include "viz/canvas.h"
#include "viz/timeline_layout.h"
#include "viz/view_model.h"

namespace orrery::viz {

/// Where everything is, for a window of this size.
struct FrameAreas {
  float width, height, scale;
  float header_bottom;
  float overview_top, overview_bottom;
  float axis_top, axis_bottom;
  float rows_top, rows_bottom;
  float labels_right;  ///< The timeline's left.
  float panel_left;    ///< The timeline's right.
  float legend_top;
};
FrameAreas frame_areas(float width, float height, float scale, bool compares);

/// Lays out one frame and paints it. `mouse` is where the mouse points, if anywhere; the tooltip's
/// lines are returned.
std::vector<std::string> draw_frame(Canvas&, const ViewModel&, const FrameAreas&,
                                    std::optional<ImVec2> mouse);

}  // namespace orrery::viz
