#pragma once
// What is trained: a transformer, a click-through model, or (later) both joined.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::core {

enum class ModelFamily { Gpt2, Llama, Bert, Mixtral };
enum class Normalization { LayerNorm, RmsNorm };
enum class ActivationKind { GeluTanh, GeluErf, Relu, SwiGlu };  ///< SwiGlu: silu(gate) · up.
enum class PositionKind { Learned, Rotary };

/// Element types of buffers, and the precision of a training run.
enum class DType { Float32, Tf32, Float16, BFloat16, Float8, Int32 };

/// Bytes of one element in memory. Tf32 is stored as Float32, and Float8 as BFloat16: both say how
/// matrix products compute, which cast what they read.
int dtype_bytes(DType dtype);
/// The name used in files: "float32", "tf32", "float16", "bfloat16", "float8", "int32".
std::string_view dtype_name(DType dtype);

/// A transformer as its Hugging Face config.json describes it.
struct Transformer {
  ModelFamily family = ModelFamily::Gpt2;
  int layers = 0;
  int hidden = 0;
  int heads = 0;
  int kv_heads = 0;  ///< = heads without grouped queries.
  int head_dim = 0;  ///< hidden / heads unless config.json says otherwise.
  int ffn = 0;       ///< Width of the feed-forward layer (of one expert).
  int vocab = 0;
  int max_positions = 0;
  int token_types = 0;  ///< Rows of BERT's segment embedding; 0 elsewhere.
  Normalization normalization = Normalization::LayerNorm;
  bool post_norm = false;  ///< Normalise after the residual (BERT) instead of before.
  bool causal = true;
  ActivationKind activation = ActivationKind::GeluTanh;
  PositionKind position = PositionKind::Learned;
  double rope_theta = 10000.0;
  /// config.json asks for scaled rotary frequencies (Llama 3.1), which Rotate does not compute:
  /// costs are the same, but such a model is not trained.
  bool rope_scaled = false;
  std::optional<int> attention_window;  ///< Sliding window in tokens; longer sequences are refused.
  double norm_epsilon = 1e-5;
  bool qkv_bias = false;
  bool linear_bias = false;  ///< Biases of the attention projection and the feed-forward layers.
  bool tied_embeddings = false;
  bool mlm_head = false;  ///< BERT's dense + normalisation + biased decoder head.
  int experts = 1;        ///< 1 = dense.
  int experts_per_token = 1;
  double initializer_range = 0.02;

  bool gated() const { return activation == ActivationKind::SwiGlu; }
};

/// One embedding table of a click-through model.
struct EmbeddingTable {
  std::string name;
  std::int64_t rows = 0;
  int dim = 0;
  int lookups_per_sample = 1;  ///< Fields that look up in this table (multi-hot counts each).
  double zipf_exponent = 0.0;  ///< Skew of the ids; 0 = uniform.
};

enum class Interaction { None, FactorizationMachine, Dot };  ///< Wide & Deep, DeepFM, DLRM.

/// A click-through model: logit = wide(ids) + wide_dense·x + bias [+ FM] + MLP([x, e_1 .. e_F]).
struct ClickThrough {
  int dense_features = 0;
  std::vector<EmbeddingTable> tables;
  std::vector<int> mlp;  ///< Hidden widths; the output layer of width 1 is implied.
  Interaction interaction = Interaction::FactorizationMachine;
  bool wide = true;  ///< A linear part: one more weight per table row and per dense feature.
};

struct Model {
  std::string name;
  std::optional<Transformer> transformer;
  std::optional<ClickThrough> click_through;
};

/// Parameters that compute on one token: of each layer's experts only experts_per_token.
std::int64_t active_parameter_count(const Transformer&);
/// Trainable parameters; for GPT-2 124,439,808 and Llama 3 8B 8,030,261,248.
std::int64_t parameter_count(const Transformer&);
std::int64_t parameter_count(const ClickThrough&);

}  // namespace orrery::core
