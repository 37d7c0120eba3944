#include "viz/window.h"

#include <GLFW/glfw3.h>
#include <backends/imgui_impl_glfw.h>
#include <backends/imgui_impl_opengl3.h>

#include <string>

#include "core/error.h"
#include "viz/imgui_frame.h"

namespace orrery::viz {

namespace {

std::string glfw_reason() {
  const char* text = nullptr;
  glfwGetError(&text);
  return text == nullptr ? "unknown" : text;
}

/// GLFW's library and one window with an OpenGL 3 context.
class Window {
 public:
  Window() {
    if (glfwInit() == GLFW_FALSE) {
      throw core::SystemError("no window can be opened: " + glfw_reason() +
                              "; --screenshot FILE.png draws without a display");
    }
    glfwWindowHint(GLFW_CONTEXT_VERSION_MAJOR, 3);
    glfwWindowHint(GLFW_CONTEXT_VERSION_MINOR, 0);
    window_ = glfwCreateWindow(1600, 900, "Orrery", nullptr, nullptr);
    if (window_ == nullptr) {
      const std::string reason = glfw_reason();
      glfwTerminate();
      throw core::SystemError("no window can be opened: " + reason);
    }
    glfwMakeContextCurrent(window_);
    glfwSwapInterval(1);
  }
  ~Window() {
    glfwDestroyWindow(window_);
    glfwTerminate();
  }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  GLFWwindow* get() const { return window_; }

 private:
  GLFWwindow* window_ = nullptr;
};

/// ImGui with its backends for the window.
class Gui {
 public:
  explicit Gui(GLFWwindow* window) {
    ImGui::CreateContext();
    ImGui::GetIO().IniFilename = nullptr;
    ImGui_ImplGlfw_InitForOpenGL(window, true);
    ImGui_ImplOpenGL3_Init("#version 130");
  }
  ~Gui() {
    ImGui_ImplOpenGL3_Shutdown();
    ImGui_ImplGlfw_Shutdown();
    ImGui::DestroyContext();
  }
  Gui(const Gui&) = delete;
  Gui& operator=(const Gui&) = delete;
};

void draw(GLFWwindow* window, ViewModel& model, const Fonts& fonts) {
  ImGui_ImplOpenGL3_NewFrame();
  ImGui_ImplGlfw_NewFrame();
  ImGui::NewFrame();
  apply_input(model, fonts);
  imgui_frame(model, fonts, ImGui::GetIO().MousePos);
  ImGui::Render();
  int width = 0;
  int height = 0;
  glfwGetFramebufferSize(window, &width, &height);
  glViewport(0, 0, width, height);
  glClearColor(0, 0, 0, 1);
  glClear(GL_COLOR_BUFFER_BIT);
  ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
  glfwSwapBuffers(window);
}

}  // namespace

void show(std::vector<core::Trace> traces) {
  ViewModel model(std::move(traces));
  const Window window;
  const Gui gui(window.get());
  int width = 0;
  int height = 0;
  glfwGetWindowSize(window.get(), &width, &height);
  const Fonts fonts = load_fonts(static_cast<float>(width), static_cast<float>(height));
  while (glfwWindowShouldClose(window.get()) == GLFW_FALSE) {
    glfwWaitEventsTimeout(1.0 / 30.0);  // Idle windows need no more; input wakes it at once.
    draw(window.get(), model, fonts);
  }
}

}  // namespace orrery::viz
