// Plans that were published with their times, on the configurations that ship with the project.

#include <gtest/gtest.h>

#include <filesystem>
#include <variant>

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
// device with recomputation counted, 102.6 s a step (arXiv 2104.04473, table 1).
TEST(PublishedPlans, MegatronTrillionHasItsTimeAndItsPlace) {
  const Inputs in = read("megatron-1t-3072");
  const Outcome outcome = estimate(in.plan, in.model, in.cluster, in.job);
  ASSERT_TRUE(std::holds_alternative<Estimate>(outcome));
  const core::Seconds step = std::get<Estimate>(outcome).step;
  EXPECT_NEAR(step.value, 102.6, 0.15 * 102.6);
  SearchOptions options;
  options.keep = 1;
  options.place = {step};
  const SearchResult result = search(in.model, in.cluster, in.job, options);
  // Flash attention and sharding were to come: many plans are faster, by far not all.
  EXPECT_GT(result.faster.front(), 0u);
  EXPECT_LT(result.faster.front(), (result.candidates - result.do_not_fit) / 2);
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
