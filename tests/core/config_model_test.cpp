// Models: Hugging Face's config.json and click-through models in TOML.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/config/read.h"
#include "core/error.h"
#include "tests/core/temporary_folder.h"

namespace orrery::core {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const char* const kGpt2 = R"({
  "architectures": ["GPT2LMHeadModel"],
  "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 32, "vocab_size": 256,
  "attn_pdrop": 0.1, "task_specific_params": {"text-generation": {"max_length": 50}}
})";

const char* const kLlama = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama",
  "hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 2,
  "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256,
  "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "rope_scaling": null,
  "hidden_act": "silu", "tie_word_embeddings": false
})";

const char* const kMixtral = R"({
  "model_type": "mixtral", "hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 2,
  "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256,
  "max_position_embeddings": 32, "num_local_experts": 4, "num_experts_per_tok": 2,
  "sliding_window": null
})";

const char* const kBert = R"({
  "architectures": ["BertForMaskedLM"], "hidden_size": 64, "intermediate_size": 256,
  "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 256,
  "max_position_embeddings": 32, "type_vocab_size": 2, "layer_norm_eps": 1e-12,
  "hidden_act": "gelu"
})";

Transformer read(const char* json) {
  const TemporaryFolder folder;
  return *read_model(folder.write("tiny/config.json", json)).transformer;
}

/// `text` with its first `from` replaced by `to`.
std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string error_of(const std::string& content, const char* name = "config.json") {
  const TemporaryFolder folder;
  const auto file = folder.write(name, content);
  try {
    read_model(file);
  } catch (const ConfigError& error) {
    const std::string what = error.what();
    EXPECT_EQ(what.rfind(file.string(), 0), 0U) << what;
    return what.substr(file.string().size());
  }
  return "no error";
}

// Counts by PyTorch for the parity oracle's tiny models (gpt2's is checked against its state_dict).
TEST(HuggingFace, TinyModelsHaveTheirParameters) {
  EXPECT_EQ(parameter_count(read(kGpt2)), 118'528);
  EXPECT_EQ(parameter_count(read(kLlama)), 125'248);
  EXPECT_EQ(parameter_count(read(kMixtral)), 328'512);
  EXPECT_EQ(parameter_count(read(kBert)), 123'200);
}

TEST(HuggingFace, Gpt2HasItsDefaults) {
  const Transformer t = read(kGpt2);
  EXPECT_EQ(t.family, ModelFamily::Gpt2);
  EXPECT_EQ(t.ffn, 256);
  EXPECT_EQ(t.activation, ActivationKind::GeluTanh);
  EXPECT_EQ(t.position, PositionKind::Learned);
  EXPECT_TRUE(t.tied_embeddings && t.qkv_bias && t.linear_bias && t.causal);
}

TEST(HuggingFace, LlamaHasGroupedQueriesAndRotaryPositions) {
  const Transformer t = read(kLlama);
  EXPECT_EQ(t.kv_heads, 2);
  EXPECT_EQ(t.head_dim, 16);
  EXPECT_EQ(t.normalization, Normalization::RmsNorm);
  EXPECT_EQ(t.position, PositionKind::Rotary);
  EXPECT_DOUBLE_EQ(t.rope_theta, 10000.0);
  EXPECT_FALSE(t.tied_embeddings || t.qkv_bias || t.rope_scaled);
}

TEST(HuggingFace, Qwen2HasQueryKeyValueBiasesAndNoWindowUnlessAsked) {
  const std::string qwen = replaced(replaced(kLlama, "LlamaForCausalLM", "Qwen2ForCausalLM"),
                                    "\"rope_scaling\": null", "\"sliding_window\": 16");
  const Transformer t = read(qwen.c_str());
  EXPECT_TRUE(t.qkv_bias);
  EXPECT_FALSE(t.linear_bias);
  EXPECT_EQ(t.attention_window, std::nullopt);
}

TEST(HuggingFace, MistralHasItsWindow) {
  const std::string mistral = replaced(replaced(kLlama, "LlamaForCausalLM", "MistralForCausalLM"),
                                       "\"rope_scaling\": null", "\"sliding_window\": 16");
  EXPECT_EQ(read(mistral.c_str()).attention_window, 16);
}

TEST(HuggingFace, ErnieReadsAsBertDoes) {
  const std::string ernie = replaced(kBert, "BertForMaskedLM", "ErnieForMaskedLM");
  EXPECT_EQ(parameter_count(read(ernie.c_str())), 123'200);
  EXPECT_EQ(read(ernie.c_str()).family, ModelFamily::Bert);
}

TEST(HuggingFace, ScaledRotaryPositionsAreNoted) {
  const std::string scaled =
      replaced(kLlama, "\"rope_scaling\": null", R"("rope_scaling": {"factor": 8.0})");
  EXPECT_TRUE(read(scaled.c_str()).rope_scaled);
}

TEST(HuggingFace, TheFolderNamesTheModel) {
  const TemporaryFolder folder;
  folder.write("tiny/config.json", kGpt2);
  EXPECT_EQ(read_model(folder.path() / "tiny").name, "tiny");
  EXPECT_EQ(read_model(folder.path() / "tiny/config.json").name, "tiny");
}

TEST(HuggingFaceError, AnUnknownArchitectureNamesTheKnown) {
  EXPECT_THAT(error_of(replaced(kGpt2, "GPT2LMHeadModel", "T5ForConditionalGeneration")),
              AllOf(HasSubstr(":2:3: architectures: \"T5ForConditionalGeneration\" is unknown"),
                    HasSubstr("GPT2LMHeadModel, LlamaForCausalLM"), HasSubstr("ErnieForMaskedLM")));
}

TEST(HuggingFaceError, CutOffJsonHasLineAndColumn) {
  const std::string cut = std::string(kGpt2).substr(0, std::string(kGpt2).find(", \"n_layer\""));
  EXPECT_THAT(error_of(cut), AllOf(HasSubstr(":3:"), HasSubstr("unexpected end of input")));
  EXPECT_THAT(error_of(""), HasSubstr(":1:1: "));
  EXPECT_THAT(error_of("[1, 2]"), HasSubstr(":1:1: a JSON object is expected, found an array"));
}

// Cut at every third byte, a config.json is an error that says where; never a crash or half a
// model.
TEST(HuggingFaceError, ACutIsAnError) {
  const std::string whole = kLlama;
  const std::size_t last = whole.rfind('}');
  for (std::size_t length = 0; length <= last; length += 3) {
    EXPECT_NE(error_of(whole.substr(0, length)), "no error") << length;
  }
}

TEST(HuggingFaceError, DeepNestingAndEndlessFilesAreRefused) {
  EXPECT_THAT(error_of("{\"a\": " + std::string(1'000'000, '[')), HasSubstr("nested too deep"));
  EXPECT_THROW(read_model("/dev/zero"), ConfigError);
}

TEST(HuggingFaceError, WrongTypesAndValuesHaveLineAndColumn) {
  EXPECT_THAT(error_of(replaced(kGpt2, "\"n_layer\": 2", "\"n_layer\": \"two\"")),
              HasSubstr(":3:17: n_layer: must be an integer, found \"two\""));
  EXPECT_THAT(error_of(replaced(kGpt2, "\"n_layer\": 2", "\"n_layer\": 2.5")),
              HasSubstr("n_layer: must be an integer, found 2.5"));
  EXPECT_THAT(error_of(replaced(kGpt2, "\"n_layer\": 2", "\"n_layer\": -2")),
              HasSubstr("n_layer: is -2; allowed are 1 to"));
  EXPECT_THAT(error_of(replaced(kGpt2, "\"n_layer\": 2", "\"n_layer\": 0")),
              HasSubstr("n_layer: is 0; allowed are 1 to"));
  EXPECT_THAT(error_of(replaced(kGpt2, "\"n_embd\": 64", "\"n_embd\": 99999999999")),
              HasSubstr("n_embd: is 99999999999; allowed are 1 to"));
  EXPECT_THAT(error_of(replaced(kGpt2, "\"n_embd\": 64", "\"n_embd\": 1e999")), HasSubstr(":3:"));
  EXPECT_THAT(error_of(replaced(kGpt2, "\"n_head\": 4", "\"n_head\": 5")),
              HasSubstr("n_head: is 5, which does not divide n_embd = 64"));
  EXPECT_THAT(error_of(replaced(kGpt2, "\"n_layer\": 2, ", "")), HasSubstr("n_layer: is missing"));
  EXPECT_THAT(
      error_of(replaced(kLlama, "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3")),
      HasSubstr("does not divide 4 heads"));
  EXPECT_THAT(error_of(replaced(kLlama, "silu", "gelu")), HasSubstr("allowed are \"silu\""));
  EXPECT_THAT(error_of(replaced(replaced(kGpt2, "\"n_embd\": 64", "\"n_embd\": 8000000"),
                                "\"n_layer\": 2", "\"n_layer\": 10000")),
              HasSubstr("parameters; at most 1e+17 are allowed"));
}

TEST(HuggingFaceError, ArithmeticThatIsNotThereIsRefused) {
  EXPECT_THAT(error_of(replaced(kGpt2, "\"attn_pdrop\": 0.1", "\"scale_attn_weights\": false")),
              HasSubstr("scale_attn_weights: false is not supported"));
  EXPECT_THAT(error_of(replaced(kBert, "\"hidden_act\": \"gelu\"", "\"use_task_id\": true")),
              HasSubstr("use_task_id: true is not supported"));
  EXPECT_THAT(error_of(replaced(kLlama, "\"rope_scaling\": null", "\"attention_bias\": true")),
              HasSubstr("attention_bias: must equal mlp_bias"));
}

const char* const kDeepFm = R"(name = "deepfm"
dense_features = 13
mlp = [64, 32]
interaction = "factorization-machine"

[[table]]
name = "hash"
rows = 5200
dim = 8
lookups_per_sample = 26
zipf_exponent = 1.05
)";

TEST(ClickThroughFile, IsRead) {
  const TemporaryFolder folder;
  const Model model = read_model(folder.write("deepfm.toml", kDeepFm));
  EXPECT_EQ(model.name, "deepfm");
  ASSERT_TRUE(model.click_through.has_value());
  const ClickThrough& c = *model.click_through;
  EXPECT_EQ(c.dense_features, 13);
  EXPECT_EQ(c.mlp, (std::vector<int>{64, 32}));
  EXPECT_EQ(c.interaction, Interaction::FactorizationMachine);
  EXPECT_TRUE(c.wide);
  ASSERT_EQ(c.tables.size(), 1U);
  EXPECT_EQ(c.tables[0].rows, 5200);
  EXPECT_EQ(c.tables[0].lookups_per_sample, 26);
  EXPECT_DOUBLE_EQ(c.tables[0].zipf_exponent, 1.05);
}

TEST(ClickThroughFile, RefusesWhatItDoesNotKnow) {
  const char* const name = "deepfm.toml";
  EXPECT_THAT(error_of(replaced(kDeepFm, "dim = 8", "dims = 8"), name),
              HasSubstr(":9:8: table.dim: is missing; is \"dims\" a typing error?"));
  EXPECT_THAT(error_of(replaced(kDeepFm, "lookups_per_sample", "lookups_per_samples"), name),
              HasSubstr("unknown key; did you mean \"lookups_per_sample\"?"));
  EXPECT_THAT(error_of(replaced(kDeepFm, "factorization-machine", "fm"), name),
              HasSubstr("allowed are \"none\", \"factorization-machine\", \"dot\""));
  EXPECT_THAT(error_of(replaced(kDeepFm, "rows = 5200", "rows = 0"), name),
              HasSubstr("table.rows: is 0; allowed are 1 to"));
  EXPECT_THAT(error_of(replaced(kDeepFm, "[64, 32]", "[64, \"32\"]"), name),
              HasSubstr(":3:12: mlp: must be an array of integers, found \"32\""));
  EXPECT_THAT(error_of(replaced(kDeepFm, "[[table]]", "[table]"), name),
              HasSubstr("table: must be an array of tables, found a table"));
  EXPECT_THAT(error_of(replaced(kDeepFm, "= 13", "="), name), HasSubstr(":2:"));
}

TEST(ModelFile, ThatIsMissingIsNamed) {
  EXPECT_THROW(read_model("no/such/config.json"), ConfigError);
}

}  // namespace
}  // namespace orrery::core
