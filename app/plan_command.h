#pragma once

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace orrery::app {

struct PlanFlags {
  std::string model;
  std::string cluster;
  std::string job;
  std::optional<std::string> output;
  // What the plans must be like; absent: anything.
  std::optional<int> max_gpus, data, tensor, pipeline, context, expert, expert_tensor, sharding,
      sharding_stage, virtual_stages, microbatch;
  std::optional<double> expert_capacity;
  std::optional<std::string> max_memory, schedule, recompute, sequence_parallel;
  std::vector<std::string> compare;  ///< Plan files.
  bool pareto = false;
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
