#include "viz/imgui_frame.h"

#include <algorithm>
#include <cmath>

#include "viz/frame.h"

namespace orrery::viz {

using core::Seconds;

namespace {

constexpr ImGuiWindowFlags kPlain =
    ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings |
    ImGuiWindowFlags_NoBackground | ImGuiWindowFlags_NoBringToFrontOnFocus;

constexpr double kZoomPerNotch = 0.8;    // Of the wheel: the range shrinks to this share.
constexpr double kZoomPerSecond = 0.15;  // Holding W.
constexpr double kPanPerSecond = 0.8;    // Holding D: so many visible ranges.
constexpr double kFast = 3.0;            // With Shift.
constexpr double kFine = 0.25;           // With Ctrl.

FrameAreas areas_of(const ViewModel& model, const Fonts& fonts) {
  const ImVec2 size = ImGui::GetIO().DisplaySize;
  return frame_areas(size.x, size.y, fonts.scale, model.compares());
}

// Letters are their upper-case ASCII codes for GLFW, and so for ImGui 1.86's KeysDown.
bool pressed(int key) { return ImGui::IsKeyPressed(key); }
bool held(int key) { return ImGui::IsKeyDown(key); }

double speed() {
  const ImGuiIO& io = ImGui::GetIO();
  return io.KeyShift ? kFast : io.KeyCtrl ? kFine : 1.0;
}

void apply_held_keys(ViewModel& model, Seconds about) {
  const double dt = std::min(0.1, static_cast<double>(ImGui::GetIO().DeltaTime)) * speed();
  if (held('W')) model.zoom(std::pow(kZoomPerSecond, dt), about);
  if (held('S')) model.zoom(std::pow(kZoomPerSecond, -dt), about);
  if (held('A')) model.pan(-kPanPerSecond * dt * model.range().length());
  if (held('D')) model.pan(kPanPerSecond * dt * model.range().length());
}

void apply_pressed_keys(ViewModel& model) {
  const ImGuiIO& io = ImGui::GetIO();
  const int last = static_cast<int>(model.traces().size()) - 1;
  const int step = model.traces().back().step;
  if (pressed('F')) model.fit_selection();
  if (pressed('C')) model.toggle_critical_path();
  if (pressed('G')) model.next_gap(io.KeyShift ? -1 : 1);
  if (pressed('N')) model.select_step(last, step + 1);
  if (pressed('P')) model.select_step(last, step - 1);
  if (pressed(',')) model.select_neighbour(-1);
  if (pressed('.')) model.select_neighbour(1);
  if (pressed('0') || ImGui::IsKeyPressed(ImGui::GetKeyIndex(ImGuiKey_Home))) model.show_all();
  if (ImGui::IsKeyPressed(ImGui::GetKeyIndex(ImGuiKey_Escape))) model.select(std::nullopt);
  if (ImGui::IsKeyPressed(ImGui::GetKeyIndex(ImGuiKey_UpArrow))) model.scroll_ranks(-1);
  if (ImGui::IsKeyPressed(ImGui::GetKeyIndex(ImGuiKey_DownArrow))) model.scroll_ranks(1);
}

void apply_mouse(ViewModel& model, const FrameAreas& a, const Viewport& viewport) {
  const ImGuiIO& io = ImGui::GetIO();
  const bool over_rows = io.MousePos.x >= viewport.left && io.MousePos.x < viewport.right &&
                         io.MousePos.y >= a.axis_top && io.MousePos.y < a.rows_bottom;
  const bool over_overview = io.MousePos.x >= viewport.left && io.MousePos.x < viewport.right &&
                             io.MousePos.y >= a.overview_top && io.MousePos.y < a.overview_bottom;
  if (over_rows && io.MouseWheel != 0.0F) {
    model.zoom(std::pow(kZoomPerNotch, static_cast<double>(io.MouseWheel) * speed()),
               viewport.time_at(io.MousePos.x));
  }
  if (over_rows && ImGui::IsMouseDragging(0)) {
    model.pan(Seconds(-io.MouseDelta.x * viewport.seconds_per_pixel()));
  }
  if (over_overview && io.MouseDown[0]) {
    const Viewport whole{viewport.left, viewport.right, model.bounds()};
    const Seconds half = 0.5 * model.range().length();
    const Seconds middle = whole.time_at(io.MousePos.x);
    model.show({middle - half, middle + half});
  }
  const RowLayout rows = arrange_rows(model, a.rows_top, a.rows_bottom, a.scale);
  if (over_rows && ImGui::IsMouseDoubleClicked(0)) {
    model.select(span_at(model, rows, viewport, io.MousePos.x, io.MousePos.y));
    model.fit_selection();
  } else if (over_rows && ImGui::IsMouseClicked(0)) {
    model.select(span_at(model, rows, viewport, io.MousePos.x, io.MousePos.y));
  }
}

void show_keys() {
  ImGui::BeginTooltip();
  ImGui::TextUnformatted(
      "wheel, W S   zoom at the mouse (Shift fast, Ctrl fine)\n"
      "drag, A D    pan\n"
      "click        select a span;  double click: zoom to it\n"
      "F            fit the selection, or the step\n"
      "Home, 0      everything\n"
      ", .          previous, next span on the lane\n"
      "G, Shift+G   next largest gap, and back\n"
      "C            critical path\n"
      "N P          next, previous step\n"
      "Up Down      scroll ranks\n"
      "Esc          clear the selection");
  ImGui::EndTooltip();
}

}  // namespace

void imgui_frame(const ViewModel& model, const Fonts& fonts, std::optional<ImVec2> mouse) {
  ImGui::SetNextWindowPos({0, 0});
  ImGui::SetNextWindowSize(ImGui::GetIO().DisplaySize);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {0, 0});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 0);
  ImGui::Begin("Orrery", nullptr, kPlain);
  Canvas canvas(*ImGui::GetWindowDrawList(), fonts);
  const std::vector<std::string> tooltip = draw_frame(canvas, model, areas_of(model, fonts), mouse);
  ImGui::End();
  ImGui::PopStyleVar(2);
  if (ImGui::GetIO().KeyShift && held('/')) {
    show_keys();
  } else if (!tooltip.empty()) {
    ImGui::BeginTooltip();
    for (const std::string& line : tooltip) ImGui::TextUnformatted(line.c_str());
    ImGui::EndTooltip();
  }
}

void apply_input(ViewModel& model, const Fonts& fonts) {
  const FrameAreas a = areas_of(model, fonts);
  const Viewport viewport{a.labels_right, a.panel_left - 2 * a.scale, model.range()};
  const float x = std::clamp(ImGui::GetIO().MousePos.x, viewport.left, viewport.right);
  apply_held_keys(model, viewport.time_at(x));
  apply_pressed_keys(model);
  apply_mouse(model, a, {viewport.left, viewport.right, model.range()});
}

}  // namespace orrery::viz
