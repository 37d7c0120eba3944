#include "core/config/hugging_face.h"

#include <fmt/format.h>

#include <string>

#include "core/config/table_reader.h"

namespace orrery::core {

namespace {

// Limits that only catch slips; the largest public models stay far below.
constexpr int kMaxLayers = 10'000;
constexpr int kMaxWidth = 10'000'000;
constexpr int kMaxTokens = 1'000'000'000;
constexpr int kMaxExperts = 100'000;
constexpr double kMaxParameters = 1e17;

enum class Architecture { Gpt2, Llama, Mistral, Qwen2, Bert, Ernie, Mixtral };

using Names = std::vector<std::pair<std::string_view, Architecture>>;

const Names kClasses = {
    {"GPT2LMHeadModel", Architecture::Gpt2},       {"LlamaForCausalLM", Architecture::Llama},
    {"MistralForCausalLM", Architecture::Mistral}, {"Qwen2ForCausalLM", Architecture::Qwen2},
    {"BertForMaskedLM", Architecture::Bert},       {"ErnieForMaskedLM", Architecture::Ernie},
    {"MixtralForCausalLM", Architecture::Mixtral}};
const Names kModelTypes = {{"gpt2", Architecture::Gpt2},       {"llama", Architecture::Llama},
                           {"mistral", Architecture::Mistral}, {"qwen2", Architecture::Qwen2},
                           {"bert", Architecture::Bert},       {"ernie", Architecture::Ernie},
                           {"mixtral", Architecture::Mixtral}};

Architecture architecture_of(TableReader& config) {
  if (!config.has("architectures")) return config.choice("model_type", kModelTypes);
  const std::vector<std::string> classes = config.texts("architectures");
  if (classes.empty()) config.fail("architectures", "is empty");
  std::string known;
  for (const auto& [name, architecture] : kClasses) {
    if (name == classes.front()) return architecture;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", name);
  }
  config.fail("architectures",
              fmt::format("\"{}\" is unknown; known are {}", classes.front(), known));
}

int count_or(TableReader& config, std::string_view key, int most, int otherwise) {
  return config.has(key) ? config.count(key, 1, most) : otherwise;
}

bool flag_or(TableReader& config, std::string_view key, bool otherwise) {
  return config.has(key) ? config.boolean(key) : otherwise;
}

double number_or(TableReader& config, std::string_view key, Range range, double otherwise) {
  return config.has(key) ? config.number(key, range) : otherwise;
}

/// Refuses a key whose value asks for arithmetic that is not there.
void refuse_unless(TableReader& config, std::string_view key, bool supported) {
  if (flag_or(config, key, supported) == supported) return;
  config.fail(key, fmt::format("{} is not supported; only {} is", !supported, supported));
}

ActivationKind activation(TableReader& config, std::string_view key, std::string_view otherwise) {
  static const std::vector<std::pair<std::string_view, ActivationKind>> kNames = {
      {"gelu_new", ActivationKind::GeluTanh},
      {"gelu_pytorch_tanh", ActivationKind::GeluTanh},
      {"gelu_fast", ActivationKind::GeluTanh},
      {"gelu", ActivationKind::GeluErf},
      {"relu", ActivationKind::Relu}};
  if (config.has(key)) return config.choice(key, kNames);
  for (const auto& [name, kind] : kNames) {
    if (name == otherwise) return kind;
  }
  return ActivationKind::GeluErf;
}

void set_heads(TableReader& config, Transformer& t, std::string_view hidden_key,
               std::string_view heads_key) {
  t.hidden = config.count(hidden_key, 1, kMaxWidth);
  t.heads = config.count(heads_key, 1, kMaxWidth);
  t.kv_heads = t.heads;
  if (config.has("head_dim")) {
    t.head_dim = config.count("head_dim", 1, kMaxWidth);
  } else if (t.hidden % t.heads == 0) {
    t.head_dim = t.hidden / t.heads;
  } else {
    config.fail(heads_key,
                fmt::format("is {}, which does not divide {} = {}", t.heads, hidden_key, t.hidden));
  }
}

/// Key names of GPT2Config; defaults are that class's.
Transformer read_gpt2(TableReader& config) {
  Transformer t;
  t.family = ModelFamily::Gpt2;
  t.layers = config.count("n_layer", 1, kMaxLayers);
  set_heads(config, t, "n_embd", "n_head");
  t.ffn = count_or(config, "n_inner", kMaxWidth, 4 * t.hidden);
  t.vocab = config.count("vocab_size", 1, kMaxTokens);
  t.max_positions = config.count("n_positions", 1, kMaxTokens);
  t.activation = activation(config, "activation_function", "gelu_new");
  t.norm_epsilon = number_or(config, "layer_norm_epsilon", {0, 1}, 1e-5);
  t.qkv_bias = t.linear_bias = true;
  t.tied_embeddings = flag_or(config, "tie_word_embeddings", true);
  refuse_unless(config, "scale_attn_weights", true);
  refuse_unless(config, "scale_attn_by_inverse_layer_idx", false);
  refuse_unless(config, "add_cross_attention", false);
  return t;
}

/// BertConfig and ErnieConfig.
Transformer read_bert(TableReader& config) {
  Transformer t;
  t.family = ModelFamily::Bert;
  t.layers = config.count("num_hidden_layers", 1, kMaxLayers);
  set_heads(config, t, "hidden_size", "num_attention_heads");
  t.ffn = config.count("intermediate_size", 1, kMaxWidth);
  t.vocab = config.count("vocab_size", 1, kMaxTokens);
  t.max_positions = config.count("max_position_embeddings", 1, kMaxTokens);
  t.token_types = count_or(config, "type_vocab_size", kMaxTokens, 2);
  t.activation = activation(config, "hidden_act", "gelu");
  t.norm_epsilon = number_or(config, "layer_norm_eps", {0, 1}, 1e-12);
  t.post_norm = true;
  t.causal = false;
  t.qkv_bias = t.linear_bias = t.mlm_head = true;
  t.tied_embeddings = flag_or(config, "tie_word_embeddings", true);
  refuse_unless(config, "is_decoder", false);
  refuse_unless(config, "add_cross_attention", false);
  refuse_unless(config, "use_task_id", false);  // ERNIE's third embedding.
  if (config.has("position_embedding_type")) {
    config.choice<bool>("position_embedding_type", {{"absolute", true}});
  }
  return t;
}

void read_rotary(TableReader& config, Transformer& t) {
  t.position = PositionKind::Rotary;
  t.rope_theta = number_or(config, "rope_theta", {1, 1e15}, 10000.0);
  t.rope_scaled = config.has("rope_scaling");
  if (t.head_dim % 2 != 0) {
    config.fail("num_attention_heads",
                fmt::format("gives heads of {} elements; rotary positions need an even number",
                            t.head_dim));
  }
  if (config.has("partial_rotary_factor")) config.number("partial_rotary_factor", {1, 1});
}

/// LlamaConfig and those that follow it (Mistral, Qwen2, Mixtral).
Transformer read_llama(TableReader& config, Architecture architecture) {
  Transformer t;
  t.family = ModelFamily::Llama;
  t.layers = config.count("num_hidden_layers", 1, kMaxLayers);
  set_heads(config, t, "hidden_size", "num_attention_heads");
  t.kv_heads = count_or(config, "num_key_value_heads", kMaxWidth, t.heads);
  if (t.heads % t.kv_heads != 0) {
    config.fail("num_key_value_heads",
                fmt::format("is {}, which does not divide {} heads", t.kv_heads, t.heads));
  }
  t.ffn = config.count("intermediate_size", 1, kMaxWidth);
  t.vocab = config.count("vocab_size", 1, kMaxTokens);
  t.max_positions = config.count("max_position_embeddings", 1, kMaxTokens);
  t.normalization = Normalization::RmsNorm;
  t.norm_epsilon = number_or(config, "rms_norm_eps", {0, 1}, 1e-6);
  if (config.has("hidden_act")) config.choice<bool>("hidden_act", {{"silu", true}});
  t.activation = ActivationKind::SwiGlu;
  t.tied_embeddings = flag_or(config, "tie_word_embeddings", false);
  read_rotary(config, t);
  t.qkv_bias = architecture == Architecture::Qwen2 || flag_or(config, "attention_bias", false);
  t.linear_bias = flag_or(config, "mlp_bias", false);
  if (architecture == Architecture::Llama && t.qkv_bias != t.linear_bias) {
    config.fail("attention_bias",
                "must equal mlp_bias; biases on one of them only are not supported");
  }
  const bool windowed =
      architecture != Architecture::Qwen2 || flag_or(config, "use_sliding_window", false);
  if (windowed && config.has("sliding_window")) {
    t.attention_window = config.count("sliding_window", 1, kMaxTokens);
  }
  return t;
}

Transformer read_mixtral(TableReader& config) {
  Transformer t = read_llama(config, Architecture::Mixtral);
  t.family = ModelFamily::Mixtral;
  t.experts = config.count("num_local_experts", 2, kMaxExperts);
  t.experts_per_token = config.count("num_experts_per_tok", 1, t.experts);
  return t;
}

Transformer read_architecture(TableReader& config) {
  const Architecture architecture = architecture_of(config);
  switch (architecture) {
    case Architecture::Gpt2:
      return read_gpt2(config);
    case Architecture::Bert:
    case Architecture::Ernie:
      return read_bert(config);
    case Architecture::Mixtral:
      return read_mixtral(config);
    case Architecture::Llama:
    case Architecture::Mistral:
    case Architecture::Qwen2:
      return read_llama(config, architecture);
  }
  config.fail("architectures", "is unknown");
}

}  // namespace

Transformer read_hugging_face(const std::filesystem::path& file) {
  const ConfigValue value = parse_json_file(file);
  TableReader config(file.string(), value, Sources::Optional);
  Transformer t = read_architecture(config);
  t.initializer_range = number_or(config, "initializer_range", {0, 1e3}, 0.02);
  // In doubles, because the exact count would overflow.
  const double size =
      1.0 * t.layers * t.experts * t.hidden * (3.0 * t.ffn + 4.0 * t.heads * t.head_dim) +
      1.0 * t.hidden * t.vocab;
  if (size > kMaxParameters) {
    config.fail("vocab_size", fmt::format("gives, with the other sizes, {:g} parameters; at most "
                                          "{:g} are allowed",
                                          size, kMaxParameters));
  }
  return t;
}

}  // namespace orrery::core
