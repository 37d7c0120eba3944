// The engine against the independent oracle: tests/fixtures/README.md says what it is and gives
// the bound of 1e-5 on losses.

#include <gtest/gtest.h>

#include <cmath>

#include "engine/execute.h"
#include "engine/token_data.h"
#include "parity_fixture.h"

namespace orrery::engine {
namespace {

constexpr double kLossBound = 1e-5;

void expect_losses(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t s = 0; s < found.size(); ++s) {
    EXPECT_NEAR(found[s], expected[s], kLossBound) << "step " << s;
  }
}

core::DensePlan one_rank(int microbatch) {
  core::DensePlan plan;
  plan.layers_per_stage = {2};
  plan.microbatch = microbatch;
  return plan;
}

core::Trace run_hugging_face(const std::string& folder, const core::Model& model) {
  const core::Job job = tiny_job();
  const auto tokens = open_token_array(fixture(folder + "/data.safetensors"), 256);
  ExecuteOptions options;
  options.tokens = tokens.get();
  options.initial_weights = fixture(folder + "/model.safetensors");
  options.poison = true;
  options.threads = 1;
  return execute(lowered(dense_plan(one_rank(8)), model, job), job, options);
}

TEST(Parity, Gpt2InHuggingFaceForm) {
  expect_losses(losses_of(run_hugging_face("hf/gpt2", tiny_gpt2())),
                expected_numbers("hf/gpt2/expected.json", "adamw_fp32", "losses"));
}

TEST(Parity, LlamaInHuggingFaceForm) {
  expect_losses(losses_of(run_hugging_face("hf/llama", tiny_llama())),
                expected_numbers("hf/llama/expected.json", "adamw_fp32", "losses"));
}

}  // namespace
}  // namespace orrery::engine
