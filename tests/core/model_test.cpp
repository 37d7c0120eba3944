#include "core/model.h"

#include <gtest/gtest.h>

namespace orrery::core {
namespace {

Transformer gpt2() {
  Transformer t;
  t.family = ModelFamily::Gpt2;
  t.layers = 12;
  t.hidden = 768;
  t.heads = t.kv_heads = 12;
  t.head_dim = 64;
  t.ffn = 3072;
  t.vocab = 50257;
  t.max_positions = 1024;
  t.qkv_bias = t.linear_bias = t.tied_embeddings = true;
  return t;
}

Transformer llama(int layers, int hidden, int heads, int kv_heads, int ffn, int vocab) {
  Transformer t;
  t.family = ModelFamily::Llama;
  t.layers = layers;
  t.hidden = hidden;
  t.heads = heads;
  t.kv_heads = kv_heads;
  t.head_dim = hidden / heads;
  t.ffn = ffn;
  t.vocab = vocab;
  t.max_positions = 8192;
  t.normalization = Normalization::RmsNorm;
  t.activation = ActivationKind::SwiGlu;
  t.position = PositionKind::Rotary;
  return t;
}

// (50257 + 1024)·768 + 12·(12·768² + 13·768) + 2·768; OpenAI's release counts 124,439,808.
TEST(ParameterCount, Gpt2) { EXPECT_EQ(parameter_count(gpt2()), 124'439'808); }

// 2·V·h + L·(h·(q + 2·kv) + q·h + 3·h·f + 2·h) + h; Meta's releases.
TEST(ParameterCount, Llama3) {
  EXPECT_EQ(parameter_count(llama(32, 4096, 32, 8, 14336, 128256)), 8'030'261'248);
  EXPECT_EQ(parameter_count(llama(80, 8192, 64, 8, 28672, 128256)), 70'553'706'496);
}

// Llama's tiny shape of the parity oracle with PyTorch's count.
TEST(ParameterCount, TinyLlama) {
  EXPECT_EQ(parameter_count(llama(2, 64, 4, 2, 176, 256)), 125'248);
}

// Experts multiply the feed-forward layer and add a router of h·experts; PyTorch's count.
TEST(ParameterCount, TinyMixtral) {
  Transformer t = llama(2, 64, 4, 2, 176, 256);
  t.experts = 4;
  t.experts_per_token = 2;
  EXPECT_EQ(parameter_count(t), 328'512);
}

// 32·(attention + 8·3·h·f + 8·h + 2·h) + 2·V·h + h: Mistral AI's release of Mixtral 8x7B.
TEST(ParameterCount, Mixtral8x7B) {
  Transformer t = llama(32, 4096, 32, 8, 14336, 32000);
  t.experts = 8;
  t.experts_per_token = 2;
  EXPECT_EQ(parameter_count(t), 46'702'792'704);
  // The paper's 13 billion active parameters: 2 of 8 experts.
  EXPECT_EQ(active_parameter_count(t), 46'702'792'704 - 32LL * 6 * 3 * 4096 * 14336);
  EXPECT_NEAR(static_cast<double>(active_parameter_count(t)), 13e9, 0.2e9);
}

// BERT's masked-language head: dense, normalisation and a bias over the vocabulary; PyTorch's
// count.
TEST(ParameterCount, TinyBert) {
  Transformer t = gpt2();
  t.family = ModelFamily::Bert;
  t.layers = 2;
  t.hidden = 64;
  t.heads = t.kv_heads = 4;
  t.head_dim = 16;
  t.ffn = 256;
  t.vocab = 256;
  t.max_positions = 32;
  t.token_types = 2;
  t.post_norm = t.mlm_head = true;
  t.causal = false;
  EXPECT_EQ(parameter_count(t), 123'200);
}

// Tables 5200·(8+1), wide dense 13, bias 1, MLP 221·64+64 + 64·32+32 + 32+1.
TEST(ParameterCount, DeepFm) {
  ClickThrough model;
  model.dense_features = 13;
  model.tables = {{"hash", 5200, 8, 26, 0.0}};
  model.mlp = {64, 32};
  EXPECT_EQ(parameter_count(model), 46800 + 13 + 1 + 14208 + 2080 + 33);
}

TEST(DTypes, HaveBytesAndNames) {
  EXPECT_EQ(dtype_bytes(DType::Float32), 4);
  EXPECT_EQ(dtype_bytes(DType::Tf32), 4);
  EXPECT_EQ(dtype_bytes(DType::BFloat16), 2);
  EXPECT_EQ(dtype_bytes(DType::Float8), 2);
  EXPECT_EQ(dtype_name(DType::BFloat16), "bfloat16");
}

}  // namespace
}  // namespace orrery::core
