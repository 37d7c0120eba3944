#pragma once

#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace orrery::app {

struct SimulateFlags {
  std::string plan;
  std::optional<std::string> output;
  int steps = 1;
  bool all_ranks = false;
  std::optional<std::string> perturb;
  int link_gains = 0;
  bool json = false;
};

/// Declares `orrery simulate`; parsing fills the flags.
CLI::App* declare_simulate(CLI::App& app, SimulateFlags& flags);
void run_simulate(const SimulateFlags& flags);

}  // namespace orrery::app
