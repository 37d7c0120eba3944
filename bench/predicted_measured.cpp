// Predicted against measured step times on this machine: calibrates it, trains nine plans of up to
// eight ranks several times in turn, and compares each one's fastest step with the simulation of
// the same program. Run by bench/predicted-measured.sh.

#include "study/predicted_measured.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include "core/config/read.h"
#include "core/lowering/lowering.h"
#include "engine/execute.h"
#include "study/calibrate.h"
#include "study/simulate_plan.h"

namespace {

using namespace orrery;

// Steps of one training, and how often all plans are trained in turn: the machine's mood changes.
constexpr int kSteps = 6;
constexpr int kRounds = 4;

struct Case {
  std::string name;
  study::Inputs inputs;
  core::Program program;
  core::Seconds measured;
};

core::DensePlan dense(int data, int sharding, int tensor, int pipeline) {
  core::DensePlan plan;
  plan.data = data;
  plan.sharding = sharding;
  plan.sharding_stage = sharding > 1 ? 1 : 0;
  plan.tensor = tensor;
  plan.pipeline = pipeline;
  return plan;
}

std::vector<core::DensePlan> dense_plans() {
  core::DensePlan gpipe = dense(1, 1, 1, 2);
  gpipe.schedule = core::PipelineSchedule::GPipe;
  core::DensePlan recompute = dense(1, 1, 1, 4);
  recompute.recompute = core::Recompute::Full;
  return {dense(1, 1, 1, 1), dense(2, 1, 1, 1), dense(1, 2, 1, 1), dense(1, 1, 2, 1), gpipe,
          recompute,         dense(1, 1, 2, 2), dense(2, 1, 2, 2)};
}

// A decoder of 4 layers, 256 wide, on text: configs/models/gpt-nano.
Case transformer_case(core::DensePlan plan) {
  const std::string configs = std::string(ORRERY_SOURCE_DIR) + "/configs/";
  Case c;
  c.inputs.model = core::read_model(configs + "models/gpt-nano");
  c.inputs.job = core::read_job(configs + "jobs/gpt-nano-cpu.toml");
  plan.layers_per_stage =
      core::even_layers(c.inputs.model.transformer->layers, plan.pipeline * plan.virtual_stages);
  c.inputs.plan.dense = plan;
  return c;
}

Case click_through_case(core::SparsePlan plan) {
  const std::string configs = std::string(ORRERY_SOURCE_DIR) + "/configs/";
  Case c;
  c.inputs.model = core::read_model(configs + "models/deepfm-tiny.toml");
  c.inputs.job = core::read_job(configs + "jobs/deepfm-tiny.toml");
  c.inputs.job.data =
      core::Data{core::DataFormat::CriteoTsv,
                 std::string(ORRERY_SOURCE_DIR) + "/tests/fixtures/parity/criteo_synth.tsv"};
  c.inputs.plan.sparse = plan;
  return c;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const core::DensePlan& plan : dense_plans()) cases.push_back(transformer_case(plan));
  cases.push_back(click_through_case({.workers = 1, .servers = 1}));
  for (Case& c : cases) c.name = core::describe(c.inputs.plan);
  return cases;
}

void lower_all(std::vector<Case>& cases) {
  study::CalibrateOptions options;
  if (isatty(STDERR_FILENO) == 1) {
    options.progress = [](const std::string& what) { fmt::print(stderr, "\r\033[K{}", what); };
  }
  std::map<int, core::Cluster> clusters;
  for (const auto& calibrated : study::calibrate(options)) {
    clusters[calibrated.cluster.devices()] = calibrated.cluster;
  }
  for (Case& c : cases) {
    c.inputs.cluster = clusters.at(c.inputs.plan.devices());
    c.program = study::lower_plan(c.inputs);
  }
}

void train_all(std::vector<Case>& cases) {
  for (int round = 0; round < kRounds; ++round) {
    for (Case& c : cases) {
      engine::ExecuteOptions options;
      options.steps = kSteps;
      options.threads = 1;
      const core::Seconds fastest =
          study::fastest_step(engine::execute(c.program, c.inputs.job, options));
      c.measured = round == 0 ? fastest : std::min(c.measured, fastest);
    }
  }
}

double print_table(const std::vector<Case>& cases) {
  fmt::print("{:<36} {:>5} {:>12} {:>12} {:>8}\n", "plan", "ranks", "predicted", "measured",
             "error");
  double worst = 0.0;
  for (const Case& c : cases) {
    sim::SimulateOptions options;
    options.steps = 2;
    options.memory_counters = false;
    const core::Seconds predicted =
        study::fastest_step(study::simulate_plan(c.inputs, c.program, options));
    const double error = predicted / c.measured - 1.0;
    worst = std::max(worst, std::abs(error));
    fmt::print("{:<36} {:>5} {:>9.2f} ms {:>9.2f} ms {:>+7.1f}%\n", c.name, c.program.ranks.size(),
               predicted.value * 1e3, c.measured.value * 1e3, 100.0 * error);
  }
  return worst;
}

}  // namespace

int main() {
  try {
    std::vector<Case> cases = all_cases();
    lower_all(cases);
    train_all(cases);
    fmt::print("\n{}: gpt-nano in float32, deepfm-tiny; fastest step of {} runs in turn\n\n",
               study::processor_name(), kRounds);
    const double worst = print_table(cases);
    fmt::print("\npredicted-measured-worst-error {:.3f}\n", worst);
  } catch (const std::exception& error) {
    fmt::print(stderr, "predicted_measured: {}\n", error.what());
    return 1;
  }
  return 0;
}
