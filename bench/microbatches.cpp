// What simulating a step costs over its number of microbatches, every rank simulated.

#include <fmt/format.h>

#include <filesystem>

#include "bench/cpu_seconds.h"
#include "core/config/read.h"
#include "core/lowering/lowering.h"
#include "costmodel/predict_durations.h"
#include "sim/simulate.h"

using namespace orrery;
using bench::cpu_seconds;

int main() {
  const std::filesystem::path configs = std::filesystem::path(ORRERY_SOURCE_DIR) / "configs";
  const core::Model model = core::read_model(configs / "models/llama-3-70b");
  const core::Cluster cluster =
      core::part_of(core::read_cluster(configs / "clusters/dgx-h100-2048.toml"), 32);
  core::Job job = core::read_job(configs / "jobs/llama-3-70b.toml");
  core::DensePlan dense;
  dense.tensor = 8;
  dense.pipeline = 4;
  dense.layers_per_stage = core::even_layers(80, 4);
  core::Plan plan;
  plan.dense = dense;
  fmt::print("{:>12} {:>10} {:>8} {:>22}\n", "microbatches", "step s", "CPU s",
             "CPU ms / microbatch");
  for (int microbatches = 8; microbatches <= 1024; microbatches *= 2) {
    job.global_batch = microbatches;
    const core::Program program = core::lower(plan, model, cluster, job);
    const core::Durations durations = costmodel::predict_durations(program, cluster, job);
    const double before = cpu_seconds();
    const core::Seconds step = sim::simulate_step(program, durations, cluster);
    const double taken = cpu_seconds() - before;
    fmt::print("{:12} {:10.4f} {:8.3f} {:22.3f}\n", microbatches, step.value, taken,
               1e3 * taken / microbatches);
  }
  return 0;
}
