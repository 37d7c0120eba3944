#include "core/lowering/parameter_layout.h"

#include <cmath>
#include <utility>

#include "core/error.h"

namespace orrery::core {
namespace {

enum class Split { None, Rows, Columns };

constexpr const char* kExperts = "block_sparse_moe.";  ///< Of a layer, its router and its experts.

/// Names of the tensors that differ between families.
struct Names {
  std::string layer_prefix, norm1, norm2, out, down, embedding, positions, final_norm, output;
};

Names names_of(const Transformer& model) {
  if (model.family == ModelFamily::Gpt2) {
    return {"transformer.h.",
            "ln_1",
            "ln_2",
            "attn.c_proj",
            "mlp.c_proj",
            "transformer.wte.weight",
            "transformer.wpe.weight",
            "transformer.ln_f",
            "lm_head.weight"};
  }
  return {"model.layers.",
          "input_layernorm",
          "post_attention_layernorm",
          "self_attn.o_proj",
          "mlp.down_proj",
          "model.embed_tokens.weight",
          "",
          "model.norm",
          "lm_head.weight"};
}

class LayoutBuilder {
 public:
  LayoutBuilder(const Transformer& model, const StageSlice& slice)
      : model_(model), slice_(slice), names_(names_of(model)) {}

  StageParameters build() {
    if (slice_.first) add_embedding();
    std::vector<std::int64_t>& bounds = result_.parameters.layer_bounds;
    for (int l = 0; l < slice_.layers(); ++l) {
      bounds.push_back(next_);
      add_layer(slice_.model_layer(l));
    }
    bounds.push_back(next_);
    if (slice_.last) add_head();
    if (model_.experts > 1) add_all_experts();
    result_.parameters.elements = next_;
    return std::move(result_);
  }

 private:
  /// A tensor of rows x columns (columns = 0: a vector), split over the tensor group.
  ParameterRange add(const std::string& name, std::int64_t rows, std::int64_t columns, Split split,
                     double stddev, double value = 0.0) {
    return add(name, rows, columns, split, stddev, value, slice_.tensor_ways);
  }
  ParameterRange add(const std::string& name, std::int64_t rows, std::int64_t columns, Split split,
                     double stddev, double value, std::int64_t ways) {
    ParameterTensor tensor;
    tensor.name = name;
    tensor.offset = next_;
    tensor.initial_stddev = stddev;
    tensor.initial_value = value;
    std::int64_t local_rows = rows;
    std::int64_t local_columns = columns;
    if (split == Split::Rows) {
      tensor.split_dim = 0;
      local_rows = (rows + ways - 1) / ways;
    } else if (split == Split::Columns) {
      tensor.split_dim = 1;
      local_columns = (columns + ways - 1) / ways;
    }
    tensor.counted = split == Split::None ? Counted::FirstTensorPosition : Counted::Always;
    tensor.global_shape = columns == 0 ? std::vector{rows} : std::vector{rows, columns};
    tensor.local_shape =
        columns == 0 ? std::vector{local_rows} : std::vector{local_rows, local_columns};
    const std::int64_t count = local_rows * (columns == 0 ? 1 : local_columns);
    result_.parameters.tensors.push_back(std::move(tensor));
    next_ += count;
    return {next_ - count, count};
  }

  ParameterTensor& last() { return result_.parameters.tensors.back(); }

  void begin_part() { part_first_ = next_; }
  void end_part(ParameterPart::Kind kind) {
    const std::int64_t ways =
        kind == ParameterPart::Kind::Experts ? slice_.expert_sharding_ways : slice_.sharding_ways;
    next_ = part_first_ + (next_ - part_first_ + ways - 1) / ways * ways;
    result_.parts.push_back({kind, {part_first_, next_ - part_first_}});
  }

  void add_embedding() {
    begin_part();
    result_.has_embedding = true;
    result_.token_embedding =
        add(names_.embedding, model_.vocab, model_.hidden, Split::Rows, sigma());
    if (model_.position == PositionKind::Learned) {
      result_.position_embedding =
          add(names_.positions, model_.max_positions, model_.hidden, Split::None, sigma());
    }
    if (model_.tied_embeddings && slice_.last) result_.output_weight = result_.token_embedding;
    end_part(ParameterPart::Kind::Embedding);
  }

  void add_head() {
    begin_part();
    result_.has_head = true;
    result_.final_norm = ParameterRange{next_, 0};
    std::tie(result_.final_norm_weight, result_.final_norm_bias) = add_norm(names_.final_norm);
    result_.final_norm->count = next_ - result_.final_norm->first;
    if (!model_.tied_embeddings) {
      result_.output_weight = add(names_.output, model_.vocab, model_.hidden, Split::Rows, sigma());
    } else if (!slice_.first) {
      result_.output_weight =
          add(names_.embedding, model_.vocab, model_.hidden, Split::Rows, sigma());
      last().counted = Counted::Never;
    }
    end_part(ParameterPart::Kind::Head);
  }

  std::pair<ParameterRange, std::optional<ParameterRange>> add_norm(const std::string& name) {
    const auto weight = add(name + ".weight", model_.hidden, 0, Split::None, 0.0, 1.0);
    if (model_.normalization == Normalization::RmsNorm) return {weight, std::nullopt};
    return {weight, add(name + ".bias", model_.hidden, 0, Split::None, 0.0)};
  }

  void add_layer(int index) {
    begin_part();
    const std::string prefix = names_.layer_prefix + std::to_string(index) + ".";
    LayerParameters layer;
    layer.norms.first = next_;
    std::tie(layer.norm1_weight, layer.norm1_bias) = add_norm(prefix + names_.norm1);
    std::tie(layer.norm2_weight, layer.norm2_bias) = add_norm(prefix + names_.norm2);
    layer.norms.count = next_ - layer.norms.first;
    if (model_.experts > 1) {
      layer.router = add(prefix + kExperts + "gate.weight", model_.experts, model_.hidden,
                         Split::None, sigma());
    }
    add_attention(prefix, layer);
    if (model_.experts == 1) add_feed_forward(prefix, layer);
    result_.layers.push_back(layer);
    end_part(ParameterPart::Kind::Layer);
  }

  void add_all_experts() {
    result_.parameters.experts = model_.experts / slice_.expert_ways;
    std::vector<std::int64_t>& bounds = result_.parameters.expert_bounds;
    for (int l = 0; l < slice_.layers(); ++l) {
      bounds.push_back(next_);
      add_experts(names_.layer_prefix + std::to_string(slice_.model_layer(l)) + "." + kExperts,
                  result_.layers[static_cast<std::size_t>(l)]);
    }
    bounds.push_back(next_);
  }

  /// As Mixtral names them: w1 the gate, w3 up, w2 down.
  void add_experts(const std::string& prefix, LayerParameters& layer) {
    begin_part();
    layer.up_weight.first = next_;
    for (int e = 0; e < result_.parameters.experts; ++e) {
      if (model_.gated()) add_expert(prefix, e, "w1", Split::Rows);
      add_expert(prefix, e, "w3", Split::Rows);
    }
    layer.up_weight.count = next_ - layer.up_weight.first;
    layer.down_weight.first = next_;
    for (int e = 0; e < result_.parameters.experts; ++e) {
      add_expert(prefix, e, "w2", Split::Columns);
    }
    layer.down_weight.count = next_ - layer.down_weight.first;
    end_part(ParameterPart::Kind::Experts);
  }

  void add_expert(const std::string& prefix, int expert, const char* name, Split split) {
    const bool up = split == Split::Rows;
    const int ways = slice_.expert_tensor_ways;
    add(prefix + "experts.{}." + name + ".weight", up ? model_.ffn : model_.hidden,
        up ? model_.hidden : model_.ffn, ways > 1 ? split : Split::None,
        up ? sigma() : residual_sigma(), 0.0, ways);
    last().expert = expert;
    last().counted = Counted::Always;
  }

  void add_attention(const std::string& prefix, LayerParameters& layer) {
    const std::int64_t q = std::int64_t{model_.heads} * model_.head_dim;
    const std::int64_t kv = std::int64_t{model_.kv_heads} * model_.head_dim;
    const bool fused = model_.family == ModelFamily::Gpt2;
    const std::string names[3] = {fused ? "attn.c_attn" : "self_attn.q_proj",
                                  fused ? "attn.c_attn" : "self_attn.k_proj",
                                  fused ? "attn.c_attn" : "self_attn.v_proj"};
    const std::int64_t rows[3] = {q, kv, kv};
    layer.qkv_weight.first = next_;
    std::int64_t file_row = 0;
    for (int i = 0; i < 3; ++i) {
      add(prefix + names[i] + ".weight", rows[i], model_.hidden, Split::Rows, sigma());
      in_file(fused ? file_row : 0, fused);
      file_row += rows[i];
    }
    layer.qkv_weight.count = next_ - layer.qkv_weight.first;
    if (model_.qkv_bias) {
      ParameterRange bias{next_, 0};
      file_row = 0;
      for (int i = 0; i < 3; ++i) {
        add(prefix + names[i] + ".bias", rows[i], 0, Split::Rows, 0.0);
        in_file(fused ? file_row : 0, false);
        file_row += rows[i];
      }
      bias.count = next_ - bias.first;
      layer.qkv_bias = bias;
    }
    layer.out_weight =
        add(prefix + names_.out + ".weight", model_.hidden, q, Split::Columns, residual_sigma());
    in_file(0, fused);
    if (model_.linear_bias) {
      layer.out_bias = add(prefix + names_.out + ".bias", model_.hidden, 0, Split::None, 0.0);
    }
  }

  void add_feed_forward(const std::string& prefix, LayerParameters& layer) {
    const bool gpt2 = model_.family == ModelFamily::Gpt2;
    layer.up_weight.first = next_;
    if (model_.gated()) {
      add(prefix + "mlp.gate_proj.weight", model_.ffn, model_.hidden, Split::Rows, sigma());
    }
    const std::string up = gpt2 ? "mlp.c_fc" : "mlp.up_proj";
    add(prefix + up + ".weight", model_.ffn, model_.hidden, Split::Rows, sigma());
    in_file(0, gpt2);
    layer.up_weight.count = next_ - layer.up_weight.first;
    if (model_.linear_bias) {
      layer.up_bias = add(prefix + up + ".bias", model_.ffn, 0, Split::Rows, 0.0);
    }
    layer.down_weight = add(prefix + names_.down + ".weight", model_.hidden, model_.ffn,
                            Split::Columns, residual_sigma());
    in_file(0, gpt2);
    if (model_.linear_bias) {
      layer.down_bias = add(prefix + names_.down + ".bias", model_.hidden, 0, Split::None, 0.0);
    }
  }

  void in_file(std::int64_t row, bool transposed) {
    last().file_row = row;
    last().file_transposed = transposed;
  }

  double sigma() const { return model_.initializer_range; }
  /// GPT-2 scales the projections that end in the residual stream by 1/√(2·layers).
  /// Source: Radford et al., Language Models are Unsupervised Multitask Learners, section 2.3.
  double residual_sigma() const {
    return model_.family == ModelFamily::Gpt2 ? sigma() / std::sqrt(2.0 * model_.layers) : sigma();
  }

  const Transformer& model_;
  const StageSlice& slice_;
  Names names_;
  StageParameters result_;
  std::int64_t next_ = 0;
  std::int64_t part_first_ = 0;
};

}  // namespace

int StageSlice::layers() const {
  int sum = 0;
  for (const LayerRange& chunk : chunks) sum += chunk.count;
  return sum;
}

int StageSlice::model_layer(int layer) const {
  for (const LayerRange& chunk : chunks) {
    if (layer < chunk.count) return chunk.first + layer;
    layer -= chunk.count;
  }
  ORRERY_CHECK(false, "a layer beyond the slice");
}

StageParameters stage_parameters(const Transformer& model, const StageSlice& slice) {
  ORRERY_CHECK(model.family != ModelFamily::Bert, "only decoders have a parameter layout");
  return LayoutBuilder(model, slice).build();
}

std::int64_t vocabulary_rows(const Transformer& model, int tensor_ways) {
  return (std::int64_t{model.vocab} + tensor_ways - 1) / tensor_ways;
}

}  // namespace orrery::core
