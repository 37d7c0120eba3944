// The attention half of a layer: decoder_stage.h.

#include "core/lowering/decoder_stage.h"

namespace orrery::core {

void DecoderStage::forward_attention(BlockBuilder& block, int layer) const {
  const auto l = static_cast<std::size_t>(layer);
  const LayerBuffers& b = layers_[l];
  const LayerParameters& p = parameters_.layers[l];
  normalize(block, layer_label(layer, "norm1"), x_[l], b.norm1, b.norm1_statistics, p.norm1_weight,
            p.norm1_bias);
  const BufferId input = all_rows(block, layer_label(layer, "qkv"), b.norm1, gathered_);
  linear(block, layer_label(layer, "qkv"), input, qkv_rows_.value_or(b.qkv), qkv_width_,
         model_.hidden, p.qkv_weight, p.qkv_bias);
  if (qkv_rows_) to_heads(block, layer_label(layer, "qkv"), *qkv_rows_, b.qkv, true);
  const int heads = attention_heads_;
  const int kv_heads = attention_kv_heads_;
  if (model_.position == PositionKind::Rotary) {
    block.compute(layer_label(layer, "rotary"),
                  Rotate{plan_.microbatch, attention_sequence_, heads, kv_heads, model_.head_dim,
                         model_.rope_theta, false, exchanges_ ? SequencePart{} : part_},
                  {all(b.qkv)}, {all(b.qkv)});
  }
  forward_inside(block, layer);
  if (plan_.attention == AttentionKind::Plain) {
    block.compute(
        layer_label(layer, "attention.context"),
        AttentionContext{plan_.microbatch, attention_sequence_, heads, kv_heads, model_.head_dim},
        {all(b.inside), all(b.qkv)}, {all(b.attended)});
  }
  if (exchanges_) {
    to_rows(block, layer_label(layer, "attention"), b.attended, b.attention, false);
  }
  linear(block, layer_label(layer, "out"), b.attention, projected_, model_.hidden, attention_width_,
         p.out_weight, std::nullopt);
  const View projected = reduce_tensor(block, layer_label(layer, "out"), projected_);
  std::vector<View> reads = {all(x_[l]), projected};
  if (p.out_bias) reads.push_back(value(block, *p.out_bias));
  block.compute(layer_label(layer, "residual1"),
                Add{own_rows_, model_.hidden, p.out_bias.has_value()}, reads, {all(b.middle)});
}

/// Up to what backward needs: the softmax of plain attention, all of flash attention.
void DecoderStage::forward_inside(BlockBuilder& block, int layer) const {
  const LayerBuffers& b = layers_[static_cast<std::size_t>(layer)];
  const int heads = attention_heads_;
  const int kv_heads = attention_kv_heads_;
  if (rings_) {
    forward_ring(block, layer);
    return;
  }
  if (plan_.attention == AttentionKind::Flash) {
    block.compute(layer_label(layer, "attention"),
                  Attention{plan_.microbatch, attention_sequence_, heads, kv_heads, model_.head_dim,
                            model_.causal},
                  {all(b.qkv)}, {all(b.attended), all(b.inside)});
    return;
  }
  block.compute(
      layer_label(layer, "attention.scores"),
      AttentionScores{plan_.microbatch, attention_sequence_, heads, kv_heads, model_.head_dim},
      {all(b.qkv)}, {all(b.inside)});
  block.compute(layer_label(layer, "attention.softmax"),
                Softmax{plan_.microbatch, attention_sequence_, heads, model_.causal},
                {all(b.inside)}, {all(b.inside)});
}

void DecoderStage::backward_inside(BlockBuilder& block, int layer) const {
  const auto l = static_cast<std::size_t>(layer);
  const LayerBuffers& b = layers_[l];
  const LayerGradients& g = gradients_of_[l];
  const int heads = attention_heads_;
  const int kv_heads = attention_kv_heads_;
  const BufferId dqkv = dqkv_heads_.value_or(g.qkv);
  if (rings_) {
    backward_ring(block, layer);
    return;
  }
  if (plan_.attention == AttentionKind::Flash) {
    block.compute(
        layer_label(layer, "attention"),
        AttentionGrad{plan_.microbatch, attention_sequence_, heads, kv_heads, model_.head_dim,
                      model_.causal},
        {all(dattended_.value_or(dattention_)), all(b.qkv), all(b.attended), all(b.inside)},
        {all(dqkv)});
    return;
  }
  const View dscores = all(*dscores_);
  block.compute(
      layer_label(layer, "attention.context"),
      AttentionContextGrad{plan_.microbatch, attention_sequence_, heads, kv_heads, model_.head_dim},
      {all(dattended_.value_or(dattention_)), all(b.inside), all(b.qkv)}, {dscores, all(dqkv)});
  block.compute(layer_label(layer, "attention.softmax"),
                SoftmaxGrad{plan_.microbatch, attention_sequence_, heads}, {all(b.inside), dscores},
                {dscores});
  block.compute(
      layer_label(layer, "attention.scores"),
      AttentionScoresGrad{plan_.microbatch, attention_sequence_, heads, kv_heads, model_.head_dim},
      {dscores, all(b.qkv)}, {all(dqkv)});
}

void DecoderStage::backward_attention(BlockBuilder& block, int layer) const {
  const auto l = static_cast<std::size_t>(layer);
  const LayerBuffers& b = layers_[l];
  const LayerGradients& g = gradients_of_[l];
  const LayerParameters& p = parameters_.layers[l];
  const BufferId dy = all_rows(block, layer_label(layer, "out"), g.middle, gathered_);
  const BufferId input = for_weight_grad(block, layer_label(layer, "qkv"), b.norm1);
  linear_input_grad(block, layer_label(layer, "out"), dy, dattention_, model_.hidden,
                    attention_width_, p.out_weight);
  if (!splits_) out_weight_grad(block, layer, dy);
  const int heads = attention_heads_;
  const int kv_heads = attention_kv_heads_;
  if (recomputes(layer, Recompute::Selective)) {
    block.set_pass(Pass::Recompute);
    forward_inside(block, layer);
    block.set_pass(Pass::Backward);
  }
  if (dattended_) to_heads(block, layer_label(layer, "attention"), dattention_, *dattended_, false);
  backward_inside(block, layer);
  const BufferId dqkv = dqkv_heads_.value_or(g.qkv);
  if (model_.position == PositionKind::Rotary) {
    block.compute(layer_label(layer, "rotary"),
                  Rotate{plan_.microbatch, attention_sequence_, heads, kv_heads, model_.head_dim,
                         model_.rope_theta, true, exchanges_ ? SequencePart{} : part_},
                  {all(dqkv)}, {all(dqkv)});
  }
  if (dqkv_heads_) to_rows(block, layer_label(layer, "qkv"), dqkv, g.qkv, true);
  linear_input_grad(block, layer_label(layer, "qkv"), g.qkv, dnorm_, qkv_width_, model_.hidden,
                    p.qkv_weight);
  const View dnorm = reduce_tensor(block, layer_label(layer, "qkv"), dnorm_);
  if (!splits_) qkv_weight_grad(block, layer, input);
  normalize_grad(block, layer_label(layer, "norm1"),
                 {dnorm, x_[l], b.norm1_statistics, g.middle, g.input}, p.norm1_weight,
                 p.norm1_bias);
}

void DecoderStage::out_weight_grad(BlockBuilder& block, int layer, BufferId dy) const {
  const auto l = static_cast<std::size_t>(layer);
  const LayerParameters& p = parameters_.layers[l];
  linear_weight_grad(block, layer_label(layer, "out"), dy, layers_[l].attention, model_.hidden,
                     attention_width_, p.out_weight, p.out_bias);
}

void DecoderStage::qkv_weight_grad(BlockBuilder& block, int layer, BufferId input) const {
  const auto l = static_cast<std::size_t>(layer);
  const LayerParameters& p = parameters_.layers[l];
  linear_weight_grad(block, layer_label(layer, "qkv"), gradients_of_[l].qkv, input, qkv_width_,
                     model_.hidden, p.qkv_weight, p.qkv_bias);
}

}  // namespace orrery::core
