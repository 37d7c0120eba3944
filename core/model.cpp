#include "core/model.h"

#include "core/error.h"

namespace orrery::core {

namespace {

/// Elements of one normalisation: a weight, and a bias for LayerNorm.
std::int64_t norm_parameters(const Transformer& t) {
  return t.hidden * (t.normalization == Normalization::LayerNorm ? 2LL : 1LL);
}

/// Query, key and value projections and the output projection.
std::int64_t attention_parameters(const Transformer& t) {
  const std::int64_t hidden = t.hidden;
  const std::int64_t q = std::int64_t{t.heads} * t.head_dim;
  const std::int64_t qkv = q + 2 * std::int64_t{t.kv_heads} * t.head_dim;
  return hidden * qkv + (t.qkv_bias ? qkv : 0) + q * hidden + (t.linear_bias ? hidden : 0);
}

/// One feed-forward network: up (and gate) and down.
std::int64_t feed_forward_parameters(const Transformer& t) {
  const std::int64_t hidden = t.hidden;
  const std::int64_t inner = t.ffn;
  const std::int64_t inputs = t.gated() ? 2 : 1;
  const std::int64_t bias = t.linear_bias ? inputs * inner + hidden : 0;
  return (inputs + 1) * hidden * inner + bias;
}

std::int64_t layer_parameters(const Transformer& t) {
  const std::int64_t router = t.experts > 1 ? std::int64_t{t.hidden} * t.experts : 0;
  return attention_parameters(t) + t.experts * feed_forward_parameters(t) + router +
         2 * norm_parameters(t);
}

std::int64_t head_parameters(const Transformer& t) {
  const std::int64_t hidden = t.hidden;
  const std::int64_t output = t.tied_embeddings ? 0 : std::int64_t{t.vocab} * hidden;
  if (!t.mlm_head) return output;
  // Dense layer with bias, normalisation, and the decoder's own bias over the vocabulary.
  return output + hidden * hidden + hidden + norm_parameters(t) + t.vocab;
}

}  // namespace

int dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::Float32:
    case DType::Tf32:
    case DType::Int32:
      return 4;
    case DType::Float16:
    case DType::BFloat16:
    case DType::Float8:
      return 2;
  }
  ORRERY_CHECK(false, "unknown DType");
}

std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::Float32:
      return "float32";
    case DType::Tf32:
      return "tf32";
    case DType::Float16:
      return "float16";
    case DType::BFloat16:
      return "bfloat16";
    case DType::Float8:
      return "float8";
    case DType::Int32:
      return "int32";
  }
  ORRERY_CHECK(false, "unknown DType");
}

// One normalisation stands outside the layers: after the last one (GPT-2, Llama), or after the
// embedding where layers normalise their residual (BERT).
std::int64_t active_parameter_count(const Transformer& t) {
  return parameter_count(t) -
         std::int64_t{t.layers} * (t.experts - t.experts_per_token) * feed_forward_parameters(t);
}

std::int64_t parameter_count(const Transformer& t) {
  const std::int64_t positions = t.position == PositionKind::Learned ? t.max_positions : 0;
  const std::int64_t embedding = (t.vocab + positions + t.token_types) * std::int64_t{t.hidden};
  return embedding + t.layers * layer_parameters(t) + norm_parameters(t) + head_parameters(t);
}

std::int64_t parameter_count(const ClickThrough& model) {
  std::int64_t count = 1;  // The bias of the logit.
  std::int64_t input = model.dense_features;
  for (const EmbeddingTable& table : model.tables) {
    count += table.rows * (table.dim + (model.wide ? 1 : 0));
    input += std::int64_t{table.dim} * table.lookups_per_sample;
  }
  if (model.wide) count += model.dense_features;
  for (int width : model.mlp) {
    count += input * width + width;
    input = width;
  }
  return count + input + 1;  // The output layer of width 1.
}

}  // namespace orrery::core
