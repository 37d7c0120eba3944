// How long the simulator itself takes for one training step, one rank standing for all that do the same.

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "core/config/read.h"
#include "core/lowering/lowering.h"
#include "costmodel/predict_durations.h"
#include "sim/simulate.h"

namespace {

using namespace orrery;

const std::filesystem::path kConfigs = std::filesystem::path(ORRERY_SOURCE_DIR) / "configs";

struct Case {
  std::string name;
  core::Model model;
  core::Cluster cluster;
  core::Job job;
  core::Plan plan;
};

Case from_plan(const std::string& name) {
  const std::filesystem::path file = kConfigs / "plans" / (name + ".toml");
  const core::Plan plan = core::read_plan(file);
  const auto beside = [&](const std::string& path) { return core::resolve_beside(file, path); };
  return {name, core::read_model(beside(plan.model)), core::read_cluster(beside(plan.cluster)),
          core::read_job(beside(plan.job)), plan};
}

/// Prints a row and gives the seconds that the simulation took.
double measure(const Case& c) {
  const core::Program program = core::lower(c.plan, c.model, c.cluster, c.job);
  const core::Durations durations = costmodel::predict_durations(program, c.cluster, c.job);
  std::int64_t instructions = 0;
  for (const core::Role& role : program.roles) {
    for (const core::Call& call : role.step) {
      instructions +=
          static_cast<std::int64_t>(role.blocks[call.block.index()].instructions.size());
    }
  }
  sim::SimulateOptions options;
  options.folded = true;
  const auto start = std::chrono::steady_clock::now();
  const core::Seconds step = sim::simulate_step(program, durations, c.cluster, options);
  const double host =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print("{:24} {:6} {:6} {:13} {:10.3f} {:9.3f}\n", c.name, program.ranks.size(),
             program.roles.size(), instructions, step.value, host);
  return host;
}

}  // namespace

int main() {
  fmt::print("{:24} {:>6} {:>6} {:>13} {:>10} {:>9}\n", "plan", "ranks", "roles", "instructions",
             "step s", "takes s");
  const double llama = measure(from_plan("llama-3-70b-512"));
  measure(from_plan("megatron-1t-3072"));
  fmt::print("\nsimulate-scale-llama-3-70b-seconds {:.2f}\n", llama);
  return 0;
}
