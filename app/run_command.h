#pragma once

#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace orrery::app {

struct RunFlags {
  std::string plan;
  std::optional<std::string> output;
  std::optional<std::string> weights_out;
  std::optional<int> steps;
  int record = 20;
  int threads = 1;
  bool json = false;
};

/// Declares `orrery run`; parsing fills the flags.
CLI::App* declare_run(CLI::App& app, RunFlags& flags);
void run_run(const RunFlags& flags);

}  // namespace orrery::app
