#pragma once
// Paints what timeline_layout.h laid out. Nothing is decided here but pixels.

#include "viz/canvas.h"
#include "viz/timeline_layout.h"

namespace orrery::viz {

/// The rows' content, within the viewport's left and right and [top, bottom].
void paint_timeline(Canvas&, const ViewModel&, const RowLayout&, const DrawList&, const Viewport&,
                    float top, float bottom);

/// The ticks' labels in the strip [top, bottom] above the timeline.
void paint_time_axis(Canvas&, const DrawList&, const Viewport&, float top, float bottom);

/// Rank, stream and bubble share, right-aligned in [left, right] beside the rows.
void paint_row_labels(Canvas&, const ViewModel&, const RowLayout&, float left, float right);

}  // namespace orrery::viz
