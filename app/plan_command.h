#pragma once

#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace orrery::app {

struct PlanFlags {
  std::string model;
  std::string cluster;
  std::string job;
  std::optional<std::string> output;
  int top = 5;
  int simulate = 3;
  int pick = 1;
  bool explain = false;
  bool json = false;
};

/// Declares `orrery plan`; parsing fills the flags.
CLI::App* declare_plan(CLI::App& app, PlanFlags& flags);
void run_plan(const PlanFlags& flags);

}  // namespace orrery::app
