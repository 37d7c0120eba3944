// The engine against the independent oracle: tests/fixtures/README.md says what it is and gives
// the bound of 1e-5 on losses.

#include <gtest/gtest.h>

#include <cmath>

#include "engine/execute.h"
#include "engine/safetensors.h"
#include "engine/token_data.h"
#include "tests/engine/parity_fixture.h"
#include "tests/engine/temporary_folder.h"

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
  plan.expert_capacity = 2;  // Of models with experts: room for every row.
  return plan;
}

core::Trace run_hugging_face(const std::string& folder, const core::Model& model) {
  const core::Job job = tiny_job();
  const auto tokens = open_token_array(fixture(folder + "/data.safetensors"), 256);
  ExecuteOptions options;
  options.tokens = tokens.get();
  options.initial_weights = fixture(folder + "/model.safetensors");
  options.poison = true;
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

TEST(Parity, MixtralInHuggingFaceForm) {
  expect_losses(losses_of(run_hugging_face("hf/mixtral", tiny_mixtral())),
                expected_numbers("hf/mixtral/expected.json", "adamw_fp32", "losses"));
}

// ---- the tiny GPT, with the oracle's own names ---------------------------------------------

// "h.0.qkv.weight" → "transformer.h.0.attn.c_attn.weight".
std::string hugging_face_name(std::string name) {
  const std::pair<const char*, const char*> renamed[] = {{".ln1.", ".ln_1."},
                                                         {".ln2.", ".ln_2."},
                                                         {".qkv.", ".attn.c_attn."},
                                                         {".attproj.", ".attn.c_proj."},
                                                         {".fcproj.", ".mlp.c_proj."},
                                                         {".fc.", ".mlp.c_fc."},
                                                         {"lnf.", "ln_f."}};
  for (const auto& [from, to] : renamed) {
    const std::size_t at = name.find(from);
    if (at != std::string::npos) name.replace(at, std::string(from).size(), to);
  }
  return "transformer." + name;
}

// The oracle's linear weights are [out, in], GPT-2's files keep [in, out].
bool is_linear_weight(const std::string& name) {
  return name.find(".weight") != std::string::npos &&
         (name.find("c_attn") != std::string::npos || name.find("c_proj") != std::string::npos ||
          name.find("c_fc") != std::string::npos);
}

std::vector<NamedTensor> in_hugging_face_form(const SafetensorsFile& oracle) {
  std::vector<NamedTensor> tensors;
  for (const auto& [name, view] : oracle.tensors()) {
    NamedTensor tensor{hugging_face_name(name), view.shape, {}};
    const auto values = oracle.floats(name);
    tensor.values.assign(values.begin(), values.end());
    if (is_linear_weight(tensor.name)) {
      const auto rows = static_cast<std::size_t>(view.shape[0]);
      const auto columns = static_cast<std::size_t>(view.shape[1]);
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < columns; ++c) {
          tensor.values[c * rows + r] = values[r * columns + c];
        }
      }
      std::swap(tensor.shape[0], tensor.shape[1]);
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

struct TinyRun {
  std::vector<double> losses, norms;
};

TinyRun run_tiny_gpt(const core::Job& job, int microbatch, const std::filesystem::path& folder) {
  write_safetensors(folder / "init",
                    in_hugging_face_form(SafetensorsFile(fixture("gpt_init.safetensors"))));
  const auto tokens = open_token_array(fixture("gpt_tokens.safetensors"), 256);
  TinyRun run;
  ExecuteOptions options;
  options.tokens = tokens.get();
  options.initial_weights = folder / "init";
  options.final_weights = folder / "final";
  options.on_step = [&](const StepReport& report) {
    run.norms.push_back(report.gradient_norm.value());
  };
  run.losses =
      losses_of(execute(lowered(dense_plan(one_rank(microbatch)), tiny_gpt2(), job), job, options));
  return run;
}

// 2e-5 relative on gradient norms.
void expect_norms(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t s = 0; s < found.size(); ++s) {
    EXPECT_NEAR(found[s], expected[s], 2e-5 * expected[s]) << "step " << s;
  }
}

TEST(Parity, TinyGptWithAdamW) {
  const TemporaryFolder folder;
  const TinyRun run = run_tiny_gpt(tiny_job(), 8, folder.path());
  expect_losses(run.losses, expected_numbers("gpt_expected.json", "adamw_fp32", "losses"));
  expect_norms(run.norms, expected_numbers("gpt_expected.json", "adamw_fp32", "grad_norms"));
  // 2e-5 absolute on final weights, the key bias (rows 64 to 127) left out.
  const SafetensorsFile final_weights(folder.path() / "final");
  for (const NamedTensor& expected :
       in_hugging_face_form(SafetensorsFile(fixture("gpt_adamw_final.safetensors")))) {
    const auto found = final_weights.floats(expected.name);
    ASSERT_EQ(found.size(), expected.values.size()) << expected.name;
    const bool fused_bias = expected.name.find("c_attn.bias") != std::string::npos;
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (fused_bias && i >= 64 && i < 128) continue;
      ASSERT_NEAR(found[i], expected.values[i], 2e-5F) << expected.name << " " << i;
    }
  }
}

TEST(Parity, TinyGptInFourMicrobatches) {
  const TemporaryFolder folder;
  const TinyRun run = run_tiny_gpt(tiny_job(), 2, folder.path());
  expect_losses(run.losses, expected_numbers("gpt_expected.json", "adamw_accum4_fp32", "losses"));
}

// Clipping to 1, decay 0.1 on matrices only, warm-up over 4 steps and a cosine to 1e-4.
TEST(Parity, TinyGptClippedMaskedAndScheduled) {
  const TemporaryFolder folder;
  core::Job job = tiny_job();
  job.optimizer.beta2 = 0.95;
  job.optimizer.weight_decay = 0.1;
  job.optimizer.decay_all = false;
  job.clip_norm = 1.0;
  job.schedule = core::LearningRateSchedule{4, 1e-4};
  const TinyRun run = run_tiny_gpt(job, 8, folder.path());
  expect_losses(run.losses,
                expected_numbers("gpt_expected.json", "adamw_clip_mask_cos_fp32", "losses"));
  expect_norms(run.norms,
               expected_numbers("gpt_expected.json", "adamw_clip_mask_cos_fp32", "grad_norms"));
}

}  // namespace
}  // namespace orrery::engine
