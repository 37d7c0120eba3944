// Every layout of the model over ranks trains like one rank.

#include <gtest/gtest.h>

#include <cmath>

#include "core/check/program_check.h"
#include "engine/execute.h"
#include "engine/token_data.h"
#include "tests/engine/parity_fixture.h"

namespace orrery::engine {
namespace {

// Float32 sums in another order: relative bound on the loss over 20 steps.
constexpr double kLossBound = 1e-4;

struct Layout {
  const char* name;
  core::DensePlan plan;
};

core::DensePlan layout(int data, int tensor, int pipeline, int sharding, int microbatch) {
  core::DensePlan plan;
  plan.data = data;
  plan.tensor = tensor;
  plan.pipeline = pipeline;
  plan.sharding = sharding;
  plan.sharding_stage = sharding > 1 ? 1 : 0;
  plan.microbatch = microbatch;
  plan.layers_per_stage.assign(static_cast<std::size_t>(pipeline), 2 / pipeline);
  return plan;
}

core::DensePlan with(core::DensePlan plan, core::PipelineSchedule schedule,
                     core::Recompute recompute) {
  plan.schedule = schedule;
  plan.recompute = recompute;
  return plan;
}

std::vector<Layout> layouts() {
  using core::PipelineSchedule;
  using core::Recompute;
  return {
      {"microbatches", layout(1, 1, 1, 1, 2)},
      {"recompute", with(layout(1, 1, 1, 1, 4), PipelineSchedule::OneFOneB, Recompute::Full)},
      {"data2", layout(2, 1, 1, 1, 2)},
      {"tensor2", layout(1, 2, 1, 1, 8)},
      {"pipeline2", layout(1, 1, 2, 1, 2)},
      {"pipeline2_gpipe", with(layout(1, 1, 2, 1, 1), PipelineSchedule::GPipe, Recompute::None)},
      {"sharding2", layout(1, 1, 1, 2, 4)},
      {"data2_sharding2", layout(2, 1, 1, 2, 1)},
      {"tensor2_pipeline2",
       with(layout(1, 2, 2, 1, 2), PipelineSchedule::OneFOneB, Recompute::Full)},
      {"data2_tensor2_pipeline2", layout(2, 2, 2, 1, 1)},
      {"sharding2_tensor2_pipeline2",
       with(layout(1, 2, 2, 2, 1), PipelineSchedule::GPipe, Recompute::Full)},
      {"sharding8", layout(1, 1, 1, 8, 1)},
  };
}

core::Job clipped_job() {
  core::Job job = tiny_job();
  job.clip_norm = 0.5;  // Below every step's norm, so that it acts.
  job.optimizer.decay_all = false;
  job.schedule = core::LearningRateSchedule{4, 1e-4};
  return job;
}

std::vector<double> train(const core::Model& model, const std::string& folder,
                          const core::DensePlan& plan, ExecuteOptions options) {
  const core::Job job = clipped_job();
  const auto tokens = open_token_array(fixture(folder + "/data.safetensors"), 256);
  const core::Program program = lowered(dense_plan(plan), model, job);
  EXPECT_TRUE(core::check_program(program).empty());
  options.tokens = tokens.get();
  options.initial_weights = fixture(folder + "/model.safetensors");
  options.poison = true;
  return losses_of(execute(program, job, options));
}

class Plans : public testing::TestWithParam<Layout> {};

TEST_P(Plans, Gpt2TrainsLikeOneRank) {
  const auto expected = train(tiny_gpt2(), "hf/gpt2", layout(1, 1, 1, 1, 8), {});
  const auto found = train(tiny_gpt2(), "hf/gpt2", GetParam().plan, {});
  for (std::size_t s = 0; s < expected.size(); ++s) {
    EXPECT_NEAR(found[s], expected[s], kLossBound * expected[s]) << "step " << s;
  }
}

TEST_P(Plans, LlamaTrainsLikeOneRank) {
  const auto expected = train(tiny_llama(), "hf/llama", layout(1, 1, 1, 1, 8), {});
  const auto found = train(tiny_llama(), "hf/llama", GetParam().plan, {});
  for (std::size_t s = 0; s < expected.size(); ++s) {
    EXPECT_NEAR(found[s], expected[s], kLossBound * expected[s]) << "step " << s;
  }
}

// Whatever order the dependencies allow gives the same bits.
TEST_P(Plans, RandomDelaysChangeNothing) {
  const auto expected = train(tiny_gpt2(), "hf/gpt2", GetParam().plan, {.steps = 3});
  for (const std::uint64_t seed : {1U, 2U}) {
    EXPECT_EQ(train(tiny_gpt2(), "hf/gpt2", GetParam().plan, {.steps = 3, .delay_seed = seed}),
              expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, Plans, testing::ValuesIn(layouts()), [](const auto& layout_info) {
  return std::string(layout_info.param.name);
});

}  // namespace
}  // namespace orrery::engine
