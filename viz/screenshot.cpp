#include "viz/screenshot.h"

#include <fmt/format.h>
#include <stb_image_write.h>

#include "core/config/atomic_file.h"
#include "core/error.h"
#include "viz/imgui_frame.h"
#include "viz/rasteriser.h"

namespace orrery::viz {

namespace {

/// An ImGui context of our own; whichever was current is current again afterwards.
class HeadlessContext {
 public:
  HeadlessContext(int width, int height) : before_(ImGui::GetCurrentContext()) {
    context_ = ImGui::CreateContext();
    ImGui::SetCurrentContext(context_);
    ImGuiIO& io = ImGui::GetIO();
    io.IniFilename = nullptr;
    io.DisplaySize = {static_cast<float>(width), static_cast<float>(height)};
    io.DeltaTime = 1.0F / 60.0F;
    // Without this ImGui allows 65,536 vertices only.
    io.BackendFlags |= ImGuiBackendFlags_RendererHasVtxOffset;
  }
  ~HeadlessContext() {
    ImGui::DestroyContext(context_);
    ImGui::SetCurrentContext(before_);
  }
  HeadlessContext(const HeadlessContext&) = delete;
  HeadlessContext& operator=(const HeadlessContext&) = delete;

 private:
  ImGuiContext* before_;
  ImGuiContext* context_;
};

std::string png_of(const Image& image) {
  std::string png;
  const auto append = [](void* context, void* data, int size) {
    static_cast<std::string*>(context)->append(static_cast<const char*>(data),
                                               static_cast<std::size_t>(size));
  };
  const int written = stbi_write_png_to_func(append, &png, image.width, image.height, 4,
                                             image.rgba.data(), 4 * image.width);
  ORRERY_CHECK(written != 0, "an image in memory can be encoded");
  return png;
}

}  // namespace

Image render(std::vector<core::Trace> traces, const ScreenshotOptions& options) {
  for (int side : {options.width, options.height}) {
    if (side < kLeastSide || side > kMostSide) {
      throw core::ConfigError(fmt::format("picture size {}x{}: each side must be {} to {} pixels",
                                          options.width, options.height, kLeastSide, kMostSide));
    }
  }
  ViewModel model(std::move(traces));
  if (options.step) {
    for (std::size_t t = 0; t < model.traces().size(); ++t) {
      model.select_step(static_cast<int>(t), *options.step);
    }
  }
  if (options.range) model.show(*options.range);
  if (options.critical_path) model.toggle_critical_path();

  const HeadlessContext context(options.width, options.height);
  const Fonts fonts =
      load_fonts(static_cast<float>(options.width), static_cast<float>(options.height));
  ImFontAtlas& atlas = *ImGui::GetIO().Fonts;
  atlas.Build();
  ImGui::NewFrame();
  imgui_frame(model, fonts, std::nullopt);
  ImGui::Render();
  return rasterise(*ImGui::GetDrawData(), atlas, options.width, options.height);
}

void screenshot(const std::vector<core::Trace>& traces, const std::filesystem::path& png,
                const ScreenshotOptions& options) {
  core::write_file_atomically(png, png_of(render(traces, options)));
}

}  // namespace orrery::viz
