// Plans that were published with their times, on the configurations that ship with the project.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "core/config/read.h"
#include "costmodel/search.h"

namespace orrery::costmodel {
namespace {

struct Inputs {
  core::Plan plan;
  core::Model model;
  core::Cluster cluster;
  core::Job job;
};

Inputs read(const std::string& name) {
  const std::filesystem::path file =
      std::filesystem::path(ORRERY_SOURCE_DIR) / "configs/plans" / (name + ".toml");
  const core::Plan plan = core::read_plan(file);
  return {plan, core::read_model(core::resolve_beside(file, plan.model)),
          core::read_cluster(core::resolve_beside(file, plan.cluster)),
          core::read_job(core::resolve_beside(file, plan.job))};
}

// Megatron's 1T model on 3,072 A100: tensor 8, pipeline 64, data 6. Published: 163 TFLOP/s per
// device with recomputation counted, 102.6 s a step (arXiv 2104.04473, table 1), on plain attention
// and an older stack, so the estimate of this engine's operators may be up to 30% faster, not
// slower.
TEST(PublishedPlans, MegatronTrillionIsRankedWithItsTime) {
  const Inputs in = read("megatron-1t-3072");
  SearchOptions options;
  options.conditions.tensor = in.plan.dense->tensor;
  options.conditions.pipeline = in.plan.dense->pipeline;
  options.conditions.schedule = in.plan.dense->schedule;
  const SearchResult result = search(in.model, in.cluster, in.job, options);
  const auto published =
      std::find_if(result.ranked.begin(), result.ranked.end(), [&](const RankedPlan& ranked) {
        return core::describe(ranked.plan) == core::describe(in.plan) &&
               ranked.plan.dense->layers_per_stage == in.plan.dense->layers_per_stage;
      });
  ASSERT_NE(published, result.ranked.end());
  EXPECT_GT(published->estimate.step.value, 0.7 * 102.6);
  EXPECT_LT(published->estimate.step.value, 1.05 * 102.6);
}

// Llama 3 70B on 512 H100: the best plan fits, keeps tensor parallelism within a node, and no plan
// without model parallelism fits.
TEST(PublishedPlans, LlamaOn512DevicesHasASensibleBestPlan) {
  const Inputs in = read("llama-3-70b-512");
  const SearchResult result = search(in.model, in.cluster, in.job, {.keep = 10, .refine = {}});
  ASSERT_EQ(result.ranked.size(), 10u);
  const RankedPlan& best = result.ranked.front();
  EXPECT_LE(best.plan.dense->tensor, 8);
  EXPECT_LT(total(best.estimate.memory), best.estimate.memory_available);
  EXPECT_GT(*best.estimate.mfu, 0.3);
  EXPECT_LT(*best.estimate.mfu, 0.65);
  for (const Alternative& alternative : result.alternatives) {
    if (alternative.name == "data parallel only") {
      EXPECT_FALSE(alternative.best) << alternative.verdict;
    }
  }
}

}  // namespace
}  // namespace orrery::costmodel
