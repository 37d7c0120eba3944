#pragma once
// One frame of the viewer inside an ImGui frame, the same with and without a display.

#include <optional>

#include "viz/canvas.h"
#include "viz/view_model.h"

namespace orrery::viz {

/// Fills ImGui's display with the viewer. Call between NewFrame() and Render().
void imgui_frame(const ViewModel&, const Fonts&, std::optional<ImVec2> mouse);

/// Applies this frame's mouse and keys (ImGuiIO) to the model. Call between NewFrame() and
/// imgui_frame(). The keys are ImGui's indices, which are GLFW's.
void apply_input(ViewModel&, const Fonts&);

}  // namespace orrery::viz
