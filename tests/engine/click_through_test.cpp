// Click-through models through the parameter server, against the independent oracle
// (tests/fixtures/parity: gen_ctr's Wide & Deep and DeepFM; its bound on losses is 1e-6).

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/error.h"
#include "engine/execute.h"
#include "engine/safetensors.h"
#include "tests/core/plan_name.h"
#include "tests/engine/parity_fixture.h"
#include "tests/engine/temporary_folder.h"

namespace orrery::engine {
namespace {

constexpr double kLossBound = 1e-6;

/// What a run ends with.
struct Outcome {
  std::vector<double> losses;
  std::vector<NamedTensor> weights;
};

std::vector<NamedTensor> read_weights(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  std::vector<NamedTensor> tensors;
  for (const auto& [name, view] : file.tensors()) {
    const auto values = file.floats(name);
    tensors.push_back({name, view.shape, {values.begin(), values.end()}});
  }
  return tensors;
}

Outcome run(const core::SparsePlan& sparse, const core::Model& of, const core::Job& asked,
            std::optional<std::uint64_t> delay_seed = std::nullopt) {
  ExecuteOptions options;
  options.poison = true;
  options.threads = 1;
  options.delay_seed = delay_seed;
  const TemporaryFolder folder;
  options.final_weights = folder.path() / "final.safetensors";
  Outcome outcome;
  outcome.losses = losses_of(execute(lowered(sparse_plan(sparse), of, asked), asked, options));
  outcome.weights = read_weights(*options.final_weights);
  return outcome;
}

void expect_losses(const std::vector<double>& found, const std::string& expected_run) {
  const auto expected = expected_numbers("ctr_expected.json", expected_run, "losses");
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t s = 0; s < found.size(); ++s) {
    EXPECT_NEAR(found[s], expected[s], kLossBound) << "step " << s;
  }
}

// Weights after 20 steps: AdaGrad and Adam divide by √ of what they have seen, so that rounding of
// a gradient near 0 is amplified up to the learning rates' size; 2e-5 is the oracle's bound on
// final weights.
void expect_weights(const std::vector<NamedTensor>& found, const std::string& file) {
  const SafetensorsFile expected(fixture(file));
  ASSERT_EQ(found.size(), 10U);
  for (const NamedTensor& tensor : found) {
    const auto values = expected.floats(tensor.name);
    EXPECT_EQ(tensor.shape, expected.shape(tensor.name)) << tensor.name;
    ASSERT_EQ(tensor.values.size(), values.size()) << tensor.name;
    float worst = 0.0F;
    for (std::size_t i = 0; i < values.size(); ++i) {
      worst = std::max(worst, std::abs(tensor.values[i] - values[i]));
    }
    EXPECT_LT(worst, 2e-5F) << tensor.name;
  }
}

void expect_same_bits(const Outcome& a, const Outcome& b) {
  EXPECT_EQ(a.losses, b.losses);
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (std::size_t t = 0; t < a.weights.size(); ++t) {
    EXPECT_EQ(a.weights[t].values, b.weights[t].values) << a.weights[t].name;
  }
}

TEST(ClickThroughParity, DeepFm) {
  const Outcome outcome =
      run({.workers = 1, .servers = 1}, tiny_deepfm(), tiny_click_through_job());
  expect_losses(outcome.losses, "deepfm_adagrad_adam_fp32");
  expect_weights(outcome.weights, "deepfm_final.safetensors");
}

TEST(ClickThroughParity, WideAndDeep) {
  const Outcome outcome =
      run({.workers = 1, .servers = 1}, tiny_wide_deep(), tiny_click_through_job());
  expect_losses(outcome.losses, "wide_deep_adagrad_adam_fp32");
  expect_weights(outcome.weights, "wide_deep_final.safetensors");
}

TEST(ClickThroughParity, AdaGradOnEverything) {
  core::Job asked = tiny_click_through_job();
  asked.optimizer = *asked.sparse_optimizer;
  expect_losses(run({.workers = 1, .servers = 1}, tiny_deepfm(), asked).losses,
                "deepfm_adagrad_all_fp32");
  expect_losses(run({.workers = 1, .servers = 1}, tiny_wide_deep(), asked).losses,
                "wide_deep_adagrad_all_fp32");
}

// Two workers with a slice each sum like one that evaluates both slices: (g0 + g1).
TEST(ClickThrough, TwoWorkersAndServersAreBitForBitOneRankWithTwoSlices) {
  const Outcome one = run({.workers = 1, .servers = 1, .colocated = true, .slices = 2},
                          tiny_deepfm(), tiny_click_through_job());
  expect_same_bits(one, run({.workers = 2, .servers = 2}, tiny_deepfm(), tiny_click_through_job()));
  expect_same_bits(one, run({.workers = 2, .servers = 2, .colocated = true}, tiny_deepfm(),
                            tiny_click_through_job()));
  expect_same_bits(one, run({.workers = 2, .servers = 1, .colocated = true}, tiny_deepfm(),
                            tiny_click_through_job()));
  expect_same_bits(
      one, run({.workers = 1, .servers = 3, .slices = 2}, tiny_deepfm(), tiny_click_through_job()));
  expect_losses(one.losses, "deepfm_adagrad_adam_fp32");
}

class ManySparsePlans : public ::testing::TestWithParam<core::SparsePlan> {};

TEST_P(ManySparsePlans, GiveTheOraclesLosses) {
  expect_losses(run(GetParam(), tiny_deepfm(), tiny_click_through_job()).losses,
                "deepfm_adagrad_adam_fp32");
}

// What the Program leaves open must not matter.
TEST_P(ManySparsePlans, ChangeNothingUnderRandomDelays) {
  core::Job asked = tiny_click_through_job();
  asked.steps = 6;
  const Outcome plain = run(GetParam(), tiny_deepfm(), asked);
  for (const std::uint64_t seed : {1U, 2U}) {
    expect_same_bits(plain, run(GetParam(), tiny_deepfm(), asked, seed));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Plans, ManySparsePlans,
    ::testing::Values(core::SparsePlan{.workers = 2, .servers = 2},
                      core::SparsePlan{.workers = 4, .servers = 1, .slices = 2},
                      core::SparsePlan{.workers = 1, .servers = 3, .slices = 4},
                      core::SparsePlan{.workers = 4, .servers = 4, .colocated = true, .slices = 2},
                      core::SparsePlan{.workers = 4, .servers = 2, .colocated = true}),
    core::sparse_plan_name);

// The start depends on the seed, not on the layout; a second epoch begins after 20 steps.
TEST(ClickThrough, LearnsFromItsOwnStart) {
  core::Job asked = tiny_click_through_job();
  asked.initial_weights.reset();
  asked.seed = 11;
  asked.steps = 60;
  const Outcome one =
      run({.workers = 1, .servers = 1, .colocated = true, .slices = 2}, tiny_deepfm(), asked);
  expect_same_bits(one, run({.workers = 2, .servers = 2}, tiny_deepfm(), asked));
  double first = 0.0, last = 0.0;
  for (std::size_t s = 0; s < 20; ++s) {
    first += one.losses[s] / 20;
    last += one.losses[40 + s] / 20;
  }
  EXPECT_LT(last, first - 0.1);
}

TEST(ClickThrough, TrainsWithoutAWidePartAndWithSgd) {
  core::Model narrow = tiny_deepfm();
  narrow.click_through->wide = false;
  core::Job asked = tiny_click_through_job();
  asked.initial_weights.reset();
  asked.sparse_optimizer = core::Optimizer{.kind = core::OptimizerKind::Sgd, .learning_rate = 0.05};
  asked.steps = 3;
  const Outcome one =
      run({.workers = 1, .servers = 1, .colocated = true, .slices = 2}, narrow, asked);
  expect_same_bits(one, run({.workers = 2, .servers = 2}, narrow, asked));
  EXPECT_EQ(one.weights.size(), 8U);  // No wide.weight, no wide_dense.weight.
}

TEST(ClickThrough, NamesWhatIsWrongWithTheJob) {
  core::Job asked = tiny_click_through_job();
  const core::Program program = lowered(sparse_plan({}), tiny_deepfm(), asked);
  asked.data.reset();
  EXPECT_THROW(execute(program, asked), core::ConfigError);
  asked = tiny_click_through_job();
  asked.data->format = core::DataFormat::Text;
  EXPECT_THROW(execute(program, asked), core::ConfigError);
  asked = tiny_click_through_job();
  asked.initial_weights = fixture("ctr_data.safetensors").string();
  EXPECT_THROW(execute(program, asked), core::ConfigError);
}

}  // namespace
}  // namespace orrery::engine
