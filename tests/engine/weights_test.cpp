#include "engine/weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/error.h"
#include "engine/execute.h"
#include "engine/token_data.h"
#include "tests/engine/parity_fixture.h"
#include "tests/engine/temporary_folder.h"

namespace orrery::engine {
namespace {

core::DensePlan layout(int tensor, int pipeline, int sharding) {
  core::DensePlan plan;
  plan.tensor = tensor;
  plan.pipeline = pipeline;
  plan.sharding = sharding;
  plan.sharding_stage = sharding > 1 ? 1 : 0;
  plan.layers_per_stage.assign(static_cast<std::size_t>(pipeline), 2 / pipeline);
  return plan;
}

const core::DensePlan kLayouts[] = {layout(1, 1, 1), layout(2, 1, 1), layout(1, 2, 1),
                                    layout(2, 2, 2)};

void run_no_step(const core::Model& model, const core::DensePlan& plan,
                 const std::optional<std::filesystem::path>& initial,
                 const std::filesystem::path& out) {
  core::Job job = tiny_job();
  job.seed = 17;
  const auto tokens = open_token_array(fixture("hf/gpt2/data.safetensors"), 256);
  ExecuteOptions options;
  options.tokens = tokens.get();
  options.steps = 0;
  options.initial_weights = initial;
  options.final_weights = out;
  execute(lowered(dense_plan(plan), model, job), job, options);
}

void expect_same_bits(const SafetensorsFile& found, const SafetensorsFile& expected) {
  ASSERT_EQ(found.tensors().size(), expected.tensors().size());
  for (const auto& [name, tensor] : expected.tensors()) {
    ASSERT_TRUE(found.has(name)) << name;
    EXPECT_EQ(found.shape(name), tensor.shape) << name;
    ASSERT_EQ(found.tensors().at(name).bytes.size(), tensor.bytes.size()) << name;
    EXPECT_EQ(std::memcmp(found.tensors().at(name).bytes.data(), tensor.bytes.data(),
                          tensor.bytes.size()),
              0)
        << name;
  }
}

// A model read, trained for no step and written again has the same tensors, under every layout.
TEST(Weights, AreWrittenAsTheyWereRead) {
  const TemporaryFolder folder;
  for (const core::DensePlan& plan : kLayouts) {
    for (const auto& [name, model] :
         {std::pair{"hf/gpt2", tiny_gpt2()}, {"hf/llama", tiny_llama()}}) {
      const std::filesystem::path original = fixture(std::string(name) + "/model.safetensors");
      const std::filesystem::path out = folder.path() / "out.safetensors";
      run_no_step(model, plan, original, out);
      expect_same_bits(SafetensorsFile(out), SafetensorsFile(original));
    }
  }
}

core::DensePlan with_experts(core::DensePlan plan, int expert, int expert_tensor) {
  plan.expert = expert;
  plan.expert_tensor = expert_tensor;
  plan.sequence_parallel = plan.tensor > 1;
  plan.axis_order.insert(plan.axis_order.begin() + 1, core::Axis::Expert);
  return plan;
}

// Each rank has its own experts of each layer, or its part of them.
TEST(Weights, OfExpertsAreWrittenAsTheyWereRead) {
  const TemporaryFolder folder;
  const std::filesystem::path original = fixture("hf/mixtral/model.safetensors");
  const std::filesystem::path out = folder.path() / "out.safetensors";
  core::DensePlan sharded = with_experts(layout(1, 1, 1), 2, 1);
  sharded.sharding_stage = 3;
  for (const core::DensePlan& plan :
       {layout(1, 2, 2), with_experts(layout(1, 2, 1), 2, 1), with_experts(layout(2, 1, 1), 2, 1),
        with_experts(layout(2, 2, 2), 2, 2), sharded}) {
    run_no_step(tiny_mixtral(), plan, original, out);
    expect_same_bits(SafetensorsFile(out), SafetensorsFile(original));
  }
}

// What the seed draws does not depend on the layout.
TEST(Weights, AreDrawnTheSameForEveryLayout) {
  const TemporaryFolder folder;
  const std::filesystem::path one = folder.path() / "one.safetensors";
  const std::filesystem::path out = folder.path() / "out.safetensors";
  run_no_step(tiny_gpt2(), kLayouts[0], std::nullopt, one);
  for (const core::DensePlan& plan : kLayouts) {
    run_no_step(tiny_gpt2(), plan, std::nullopt, out);
    expect_same_bits(SafetensorsFile(out), SafetensorsFile(one));
  }
  run_no_step(tiny_mixtral(), kLayouts[0], std::nullopt, one);
  run_no_step(tiny_mixtral(), with_experts(layout(2, 1, 1), 2, 1), std::nullopt, out);
  expect_same_bits(SafetensorsFile(out), SafetensorsFile(one));
}

// 16384 draws of Normal(0, 0.02): mean within 4σ/√n, standard deviation within 4σ/√(2n); norms 1.
TEST(Weights, AreDrawnFromTheStatedDistribution) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "w.safetensors";
  run_no_step(tiny_gpt2(), kLayouts[0], std::nullopt, path);
  const SafetensorsFile file(path);
  const auto wte = file.floats("transformer.wte.weight");
  double sum = 0.0;
  double squares = 0.0;
  for (const float value : wte) {
    sum += static_cast<double>(value);
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  const double n = static_cast<double>(wte.size());
  EXPECT_NEAR(sum / n, 0.0, 4 * 0.02 / std::sqrt(n));
  EXPECT_NEAR(std::sqrt(squares / n), 0.02, 4 * 0.02 / std::sqrt(2 * n));
  EXPECT_EQ(file.floats("transformer.h.1.ln_2.weight")[63], 1.0F);
  EXPECT_EQ(file.floats("transformer.h.1.ln_2.bias")[63], 0.0F);
  // Query, key and value share a tensor of the file, not their numbers.
  const auto qkv = file.floats("transformer.h.0.attn.c_attn.weight");
  EXPECT_NE(qkv[0], qkv[64]);
}

std::string load_failure(const core::Model& model, const std::filesystem::path& path) {
  const TemporaryFolder folder;
  try {
    run_no_step(model, kLayouts[0], path, folder.path() / "out");
    return "none";
  } catch (const core::ConfigError& error) {
    return error.what();
  }
}

TEST(Weights, AnotherModelsFileIsAnError) {
  const std::filesystem::path path = fixture("hf/gpt2/model.safetensors");
  const std::string missing = load_failure(tiny_llama(), path);
  EXPECT_NE(missing.find(path.string()), std::string::npos);
  EXPECT_NE(missing.find("model.embed_tokens.weight"), std::string::npos) << missing;
  core::Model wider = tiny_gpt2();
  wider.transformer->ffn = 512;
  EXPECT_NE(load_failure(wider, path).find("mlp.c_fc"), std::string::npos);
}

// GPT-2's public files leave the leading "transformer." away, and may be BF16 or F16: 1.5 is 0x3FC0
// and 0x3E00 there.
TEST(Weights, ReadOtherNamesAndTypes) {
  core::Parameters parameters;
  core::ParameterTensor tensor;
  tensor.name = "transformer.a";
  tensor.global_shape = tensor.local_shape = {2};
  parameters.tensors.push_back(tensor);
  parameters.elements = 2;
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "w";
  for (const auto& [dtype, bits] : {std::pair<std::string, std::uint16_t>{"BF16", 0x3FC0},
                                    std::pair<std::string, std::uint16_t>{"F16", 0x3E00}}) {
    const std::string header =
        R"({"a":{"dtype":")" + dtype + R"(","shape":[2],"data_offsets":[0,4]}})";
    const std::uint64_t length = header.size();
    std::FILE* file = std::fopen(path.c_str(), "wb");
    ASSERT_NE(file, nullptr);
    std::fwrite(&length, 8, 1, file);
    std::fwrite(header.data(), 1, header.size(), file);
    const std::uint16_t values[] = {bits, static_cast<std::uint16_t>(bits | 0x8000U)};
    std::fwrite(values, 2, 2, file);
    std::fclose(file);
    float loaded[2] = {};
    load_weights(parameters, {}, SafetensorsFile(path), loaded);
    EXPECT_EQ(loaded[0], 1.5F);
    EXPECT_EQ(loaded[1], -1.5F);
  }
}

}  // namespace
}  // namespace orrery::engine
