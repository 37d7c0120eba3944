#include "viz/imgui_frame.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/core/pipeline_trace.h"

namespace orrery::viz {
namespace {

using core::Seconds;

/// A user without a display: sets ImGui's input and runs frames of 1/60 s.
class Driver {
 public:
  explicit Driver(ViewModel& model) : model_(model), context_(ImGui::CreateContext()) {
    ImGui::SetCurrentContext(context_);
    ImGuiIO& io = ImGui::GetIO();
    io.IniFilename = nullptr;
    io.DisplaySize = {1280, 720};
    io.DeltaTime = 1.0F / 60.0F;
    io.BackendFlags |= ImGuiBackendFlags_RendererHasVtxOffset;
    fonts_ = load_fonts(1280, 720);
    io.Fonts->Build();
  }
  ~Driver() { ImGui::DestroyContext(context_); }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  void frame() {
    ImGui::NewFrame();
    apply_input(model_, fonts_);
    imgui_frame(model_, fonts_, ImGui::GetIO().MousePos);
    ImGui::Render();
    ImGui::GetIO().MouseWheel = 0;
  }
  void frames(int n) {
    for (int i = 0; i < n; ++i) frame();
  }
  void mouse(float x, float y) { ImGui::GetIO().MousePos = {x, y}; }
  void button(bool down) { ImGui::GetIO().MouseDown[0] = down; }
  void wheel(float notches) { ImGui::GetIO().MouseWheel = notches; }
  void key(int k, bool down) { ImGui::GetIO().KeysDown[k] = down; }
  void press(int k) {
    key(k, true);
    frame();
    key(k, false);
    frame();
  }

 private:
  ViewModel& model_;
  ImGuiContext* context_;
  Fonts fonts_;
};

// Middle of rank 0's compute row at 1280 x 720: below the axis, right of the labels.
constexpr float kRowY = 100;
constexpr float kMiddleX = 570;

ViewModel one_trace() { return ViewModel({core::pipeline_trace({.stages = 2, .steps = 2})}); }

TEST(Input, TheWheelZoomsAtTheMouse) {
  ViewModel model = one_trace();
  Driver driver(model);
  driver.mouse(kMiddleX, kRowY);
  driver.frame();
  const Seconds before = model.range().length();
  driver.wheel(1);
  driver.frame();
  EXPECT_NEAR(model.range().length() / before, 0.8, 1e-9);
}

TEST(Input, WZoomsInAndSZoomsOutAgain) {
  ViewModel model = one_trace();
  Driver driver(model);
  driver.mouse(kMiddleX, kRowY);
  const Seconds before = model.range().length();
  driver.key('W', true);
  driver.frames(30);
  driver.key('W', false);
  EXPECT_LT(model.range().length(), 0.6 * before);
  driver.key('S', true);
  driver.frames(30);
  EXPECT_NEAR(model.range().length() / before, 1.0, 1e-6);
}

TEST(Input, DraggingPansByTheDistanceDragged) {
  ViewModel model = one_trace();
  Driver driver(model);
  model.zoom(0.1, Seconds(4));
  const core::Interval before = model.range();
  driver.mouse(kMiddleX, kRowY);
  driver.frame();
  driver.button(true);
  driver.frame();
  driver.mouse(kMiddleX + 100, kRowY);
  driver.frame();
  driver.button(false);
  driver.frame();
  // 136 px of labels and 270 px of panel leave 874 px.
  EXPECT_NEAR((before.begin - model.range().begin) / before.length(), 100.0 / 874.0, 1e-3);
}

TEST(Input, AClickSelectsAndFFitsIt) {
  ViewModel model = one_trace();
  Driver driver(model);
  driver.mouse(kMiddleX, kRowY);
  driver.frame();
  driver.button(true);
  driver.frame();
  driver.button(false);
  driver.frame();
  ASSERT_TRUE(model.selection());
  driver.press('F');
  const core::Span& span =
      model.traces()[0].trace.spans[static_cast<std::size_t>(model.selection()->span)];
  EXPECT_NEAR(model.range().length() / (span.end - span.start), 1.2, 1e-6);
}

TEST(Input, NAndPChangeTheStep) {
  ViewModel model = one_trace();
  Driver driver(model);
  driver.press('P');
  EXPECT_EQ(model.traces()[0].step, 0);
  driver.press('N');
  EXPECT_EQ(model.traces()[0].step, 1);
}

TEST(Input, RandomInputNeverLeavesTheTrace) {
  ViewModel model = one_trace();
  Driver driver(model);
  std::mt19937 random(5);
  std::uniform_real_distribution<float> x(-50, 1400);
  std::uniform_real_distribution<float> y(-50, 800);
  std::uniform_int_distribution<int> chance(0, 9);
  const std::string keys = "WASDFGCNP0,./";
  for (int i = 0; i < 500; ++i) {
    driver.mouse(x(random), y(random));
    driver.button(chance(random) < 4);
    driver.wheel(static_cast<float>(chance(random) - 5));
    const int key = keys[static_cast<std::size_t>(random() % keys.size())];
    ImGui::GetIO().KeyShift = chance(random) < 2;
    driver.key(key, true);
    driver.frame();
    driver.key(key, false);
    ASSERT_GE(model.range().begin, model.bounds().begin);
    ASSERT_LE(model.range().end, model.bounds().end);
  }
}

}  // namespace
}  // namespace orrery::viz
