#pragma once
// Draws ImGui's triangles in memory: no display, no GPU, the same bits on every run.

#include <imgui.h>

#include "viz/image.h"

namespace orrery::viz {

/// Draws on black. `atlas` must be built (GetTexDataAsRGBA32); it is the only texture.
Image rasterise(const ImDrawData&, ImFontAtlas& atlas, int width, int height);

}  // namespace orrery::viz
