#pragma once

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace orrery::app {

struct ViewFlags {
  std::vector<std::string> traces;
  std::optional<std::string> screenshot;
  std::string size = "1280x720";
  std::optional<int> step;
  bool critical_path = false;
};

/// Declares `orrery view`; parsing fills the flags.
CLI::App* declare_view(CLI::App& app, ViewFlags& flags);
void run_view(const ViewFlags& flags);

}  // namespace orrery::app
