#pragma once
// Where each weight of a pipeline stage lies in its flat parameter buffer, and how tensor
// parallelism splits it (Megatron's column and row split).
//
//   [ embedding | layer | layer | ... | head | experts of a layer | experts of a layer | ... ]
//
// Each of these parts is padded so that every rank that shares its optimizer state holds an equal
// slice; what is reduced and updated at once is made of whole parts
// (core/lowering/gradient_buckets.h). Within a layer, tensors that one matrix product reads (query,
// key, value; gate, up; the same of all experts) are adjacent, and so are those of its two
// normalisations and its router.
// Source: Shoeybi et al., Megatron-LM, arXiv 1909.08053, section 3.

#include <optional>
#include <string>
#include <vector>

#include "core/model.h"
#include "core/program.h"

namespace orrery::core {

struct LayerParameters {
  ParameterRange norm1_weight, qkv_weight, out_weight, norm2_weight;
  ParameterRange up_weight,
      down_weight;       ///< Of one feed-forward network, or of this rank's experts.
  ParameterRange norms;  ///< Weights and biases of both normalisations.
  std::optional<ParameterRange> router;  ///< Directly after them, where the layer has experts.
  /// Absent where the model has none.
  std::optional<ParameterRange> norm1_bias, qkv_bias, out_bias, norm2_bias, up_bias, down_bias;
};

/// A part of a stage's parameters: its embedding, one of its layers (all but the experts), its head,
/// or a layer's experts on this rank.
struct ParameterPart {
  enum class Kind { Embedding, Layer, Head, Experts };
  Kind kind = Kind::Layer;
  ParameterRange range;
};

struct StageParameters {
  Parameters parameters;                ///< Tensors and size; buffers are set by the lowering.
  std::vector<ParameterPart> parts;     ///< In the order of the parameters.
  std::vector<LayerParameters> layers;  ///< Of all chunks, in model order.
  std::optional<ParameterRange> token_embedding, position_embedding;
  std::optional<ParameterRange> final_norm_weight, final_norm_bias;
  std::optional<ParameterRange> final_norm;      ///< Both.
  std::optional<ParameterRange> output_weight;   ///< = token_embedding when tied on one stage.
  bool has_embedding = false, has_head = false;  ///< Among the parts.
};

/// Neighbouring layers of a model.
struct LayerRange {
  int first = 0;
  int count = 0;
};

/// What of a model one pipeline rank holds: one chunk of layers, or several with gaps between them
/// (interleaved schedules).
struct StageSlice {
  std::vector<LayerRange> chunks;  ///< In model order.
  bool first = true;               ///< Holds the embedding, before its first chunk.
  bool last = true;  ///< Holds the final normalisation and the output layer, after its last chunk.
  int tensor_ways = 1;
  int sharding_ways = 1;         ///< Ranks that share the optimizer state: of all but experts,
  int expert_sharding_ways = 1;  ///< of experts.
  int expert_ways = 1;           ///< Ranks that hold different experts of a layer.
  int expert_tensor_ways = 1;    ///< Ranks that hold parts of each.

  int layers() const;  ///< Of all chunks.
  /// The model's number of the slice's `layer`-th layer, 0 .. layers() − 1.
  int model_layer(int layer) const;
};

/// Decoders only (GPT-2, Llama and Mixtral families).
StageParameters stage_parameters(const Transformer&, const StageSlice&);

/// Rows of the vocabulary on one rank: ceil(vocab / ways).
std::int64_t vocabulary_rows(const Transformer&, int tensor_ways);

}  // namespace orrery::core
