// Every layer's collectives of Llama 3.1 405B on 512 H100 and of Mixtral 8x7B on 64: one rank for all
// that do the same takes the time that all take, in each of the two ways of folding.

#include <gtest/gtest.h>

#include <filesystem>

#include "core/config/read.h"
#include "core/lowering/lowering.h"
#include "costmodel/predict_durations.h"
#include "sim/simulate.h"

namespace orrery {
namespace {

constexpr double kRelative = 1e-9;

void expect_same_folded(const core::Program& program, const core::Cluster& cluster,
                        const core::Job& job) {
  const core::Durations durations = costmodel::predict_durations(program, cluster, job);
  sim::SimulateOptions options;
  options.memory_counters = false;
  const auto step = [&] { return sim::simulate_step(program, durations, cluster, options).value; };
  const double every = step();
  options.folded = true;
  EXPECT_NEAR(step(), every, kRelative * every);
  options.exact_links = true;
  EXPECT_NEAR(step(), every, kRelative * every);
}

TEST(Folding, Of405BOn512DevicesIsExact) {
  const std::filesystem::path configs = std::filesystem::path(ORRERY_SOURCE_DIR) / "configs";
  const core::Model model = core::read_model(configs / "models/llama-3.1-405b");
  const core::Cluster cluster =
      core::part_of(core::read_cluster(configs / "clusters/dgx-h100-2048.toml"), 512);
  core::Job job = core::read_job(configs / "jobs/llama-3.1-405b.toml");
  job.global_batch = 4 * 16;  // As many microbatches for each of four ways as for each of 128.
  core::DensePlan dense;
  dense.tensor = 8;
  dense.pipeline = 16;
  dense.sharding = 4;
  dense.sharding_stage = 1;
  dense.layers_per_stage = core::even_layers(126, 16);
  dense.recompute = core::Recompute::Full;
  core::Plan plan;
  plan.dense = dense;
  const core::Program program = core::lower(plan, model, cluster, job);
  expect_same_folded(program, cluster, job);
}

// Along the expert axis ranks exchange rows within a node; what is no expert's is reduced between nodes.
TEST(Folding, OfExpertsIsExact) {
  const std::filesystem::path folder =
      std::filesystem::path(ORRERY_SOURCE_DIR) / "configs/published/mixtral-8x7b-64";
  const core::Model model =
      core::read_model(std::filesystem::path(ORRERY_SOURCE_DIR) / "configs/models/mixtral-8x7b");
  const core::Cluster cluster = core::read_cluster(folder / "cluster.toml");
  const core::Job job = core::read_job(folder / "job.toml");
  const core::Plan plan = core::read_plan(folder / "plan.toml");
  expect_same_folded(core::lower(plan, model, cluster, job), cluster, job);
}

}  // namespace
}  // namespace orrery
