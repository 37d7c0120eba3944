// One training step of Llama 3.1 405B on 16,384 H100, all its microbatches and every layer's
// collectives, simulated by one rank for all that do the same: CPU seconds and memory, undisturbed and
// with a straggler and a slow link. Then the same on more and more microbatches.

#include <fmt/format.h>
#include <sys/resource.h>

#include <filesystem>
#include <string>

#include "bench/cpu_seconds.h"
#include "core/config/read.h"
#include "core/lowering/lowering.h"
#include "core/network/topology.h"
#include "costmodel/predict_durations.h"
#include "sim/fold_choice.h"
#include "sim/simulate.h"

namespace {

using namespace orrery;
using bench::cpu_seconds;

const std::filesystem::path kConfigs = std::filesystem::path(ORRERY_SOURCE_DIR) / "configs";

/// Most that this process has held, in GiB.
double peak_memory() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_maxrss) / (1024.0 * 1024.0);
}

struct Setting {
  core::Model model = core::read_model(kConfigs / "models/llama-3.1-405b");
  core::Cluster cluster = core::read_cluster(kConfigs / "clusters/dgx-h100-2048.toml");
  core::Job job = core::read_job(kConfigs / "jobs/llama-3.1-405b.toml");
  core::Plan plan;

  Setting() {
    core::DensePlan dense;
    dense.tensor = 8;
    dense.pipeline = 16;
    dense.sharding = 128;
    dense.sharding_stage = 1;
    dense.layers_per_stage = core::even_layers(126, 16);
    dense.recompute = core::Recompute::Full;
    plan.dense = dense;
  }
};

/// Lowers and simulates a step; prints a row and gives the CPU seconds that all of it took.
double row(const std::string& name, const Setting& s, const core::Perturbations& perturbations) {
  const double before = cpu_seconds();
  const core::Program program = core::lower(s.plan, s.model, s.cluster, s.job);
  const core::Durations durations = costmodel::predict_durations(program, s.cluster, s.job);
  sim::SimulateOptions options;
  options.folded = true;
  options.perturbations = perturbations;
  const core::Seconds step = sim::simulate_step(program, durations, s.cluster, options);
  const double taken = cpu_seconds() - before;
  const sim::Networks networks(s.cluster, perturbations);
  const std::size_t ranks = sim::fold_for(program, s.cluster, networks, options).simulated.size();
  fmt::print("{:34} {:6} {:12} {:10.4f} {:7.2f} {:8.2f}\n", name, ranks, program.microbatches,
             step.value, taken, peak_memory());
  return taken;
}

}  // namespace

int main() {
  Setting s;
  fmt::print("{:34} {:>6} {:>12} {:>10} {:>7} {:>8}\n", "step of 405B on 16,384 devices", "ranks",
             "microbatches", "step s", "CPU s", "GiB");
  const double undisturbed = row("undisturbed", s, {});
  const core::Topology topology(s.cluster);
  core::Perturbations disturbed;
  disturbed.stragglers = {{core::Rank(5003), 1.3, {}}};
  row("a straggler", s, disturbed);
  disturbed.slow_links = {{*topology.find_link("node 700 card 3 out"), 0.25, {}}};
  row("a straggler and a slow link", s, disturbed);
  const int batch = s.job.global_batch;
  for (const int times : {2, 4, 8}) {
    s.job.global_batch = batch * times;
    row(fmt::format("undisturbed, {} times the batch", times), s, {});
  }
  fmt::print("\nstep-16k {:.2f}\n", undisturbed);
  return 0;
}
