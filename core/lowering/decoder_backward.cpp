// The backward pass of a decoder's stage: decoder_stage.h.

#include "core/lowering/decoder_stage.h"

namespace orrery::core {

Block DecoderStage::backward() const {
  BlockBuilder block(role_, "backward", dtype_bytes(job_.precision));
  block.set_pass(Pass::Backward);
  if (slice_.last) {
    backward_head(block);
  } else {
    block.receive("gradient", *slots_.next, Channel::Gradient, dx_);
  }
  for (int l = slice_.layers - 1; l >= 0; --l) {
    if (plan_.recompute == Recompute::Full) recompute_layer(block, l);
    backward_feed_forward(block, l);
    backward_attention(block, l);
  }
  if (!slice_.first) {
    block.send("gradient", *slots_.previous, Channel::Gradient, dx_);
    return block.take();
  }
  std::vector<View> writes = {gradient(*parameters_.token_embedding)};
  const bool positions = parameters_.position_embedding.has_value();
  if (positions) writes.push_back(gradient(*parameters_.position_embedding));
  block.compute("embedding",
                EmbedGrad{rows_, job_.sequence, model_.hidden, vocab_rows_, slice_.tensor_ways,
                          positions, false},
                {all(*tokens_), all(dx_)}, writes);
  return block.take();
}

/// Forward again up to the activation; the layer's own output is not needed.
void DecoderStage::recompute_layer(BlockBuilder& block, int layer) const {
  const auto l = static_cast<std::size_t>(layer);
  const LayerBuffers& b = layers_[l];
  const LayerParameters& p = parameters_.layers[l];
  block.set_pass(Pass::Recompute);
  forward_attention(block, layer);
  normalize(block, layer_label(layer, "norm2"), b.middle, b.norm2, b.norm2_statistics,
            p.norm2_weight, p.norm2_bias);
  linear(block, layer_label(layer, "up"), b.norm2, b.up, up_width_, model_.hidden, p.up_weight,
         p.up_bias);
  block.compute(layer_label(layer, "activation"), Activate{rows_, ffn_, model_.activation},
                {all(b.up)}, {all(b.activated)});
  block.set_pass(Pass::Backward);
}

void DecoderStage::backward_head(BlockBuilder& block) const {
  linear_input_grad(block, "head.logits", head_->logits, dnorm_, vocab_rows_, model_.hidden,
                    *parameters_.output_weight);
  reduce_tensor(block, "head.logits", dnorm_);
  linear_weight_grad(block, "head.logits", head_->logits, head_->norm, vocab_rows_, model_.hidden,
                     *parameters_.output_weight, std::nullopt);
  normalize_grad(block, "head.norm", dnorm_, x_.back(), head_->norm_statistics,
                 *parameters_.final_norm_weight, parameters_.final_norm_bias, false);
}

void DecoderStage::backward_feed_forward(BlockBuilder& block, int layer) const {
  const auto l = static_cast<std::size_t>(layer);
  const LayerBuffers& b = layers_[l];
  const LayerParameters& p = parameters_.layers[l];
  linear_input_grad(block, layer_label(layer, "down"), dx_, dactivated_, model_.hidden, ffn_,
                    p.down_weight);
  linear_weight_grad(block, layer_label(layer, "down"), dx_, b.activated, model_.hidden, ffn_,
                     p.down_weight, p.down_bias);
  block.compute(layer_label(layer, "activation"), ActivateGrad{rows_, ffn_, model_.activation},
                {all(dactivated_), all(b.up)}, {all(dup_)});
  linear_input_grad(block, layer_label(layer, "up"), dup_, dnorm_, up_width_, model_.hidden,
                    p.up_weight);
  reduce_tensor(block, layer_label(layer, "up"), dnorm_);
  linear_weight_grad(block, layer_label(layer, "up"), dup_, b.norm2, up_width_, model_.hidden,
                     p.up_weight, p.up_bias);
  normalize_grad(block, layer_label(layer, "norm2"), dnorm_, b.middle, b.norm2_statistics,
                 p.norm2_weight, p.norm2_bias, true);
}

void DecoderStage::backward_attention(BlockBuilder& block, int layer) const {
  const auto l = static_cast<std::size_t>(layer);
  const LayerBuffers& b = layers_[l];
  const LayerParameters& p = parameters_.layers[l];
  linear_input_grad(block, layer_label(layer, "out"), dx_, dattention_, model_.hidden,
                    attention_width_, p.out_weight);
  linear_weight_grad(block, layer_label(layer, "out"), dx_, b.attention, model_.hidden,
                     attention_width_, p.out_weight, p.out_bias);
  const int heads = static_cast<int>(heads_);
  const int kv_heads = static_cast<int>(kv_heads_);
  block.compute(layer_label(layer, "attention"),
                AttentionGrad{plan_.microbatch, job_.sequence, heads, kv_heads, model_.head_dim,
                              model_.causal},
                {all(dattention_), all(b.qkv), all(b.attention), all(b.log_sum_exp)}, {all(dqkv_)});
  if (model_.position == PositionKind::Rotary) {
    block.compute(layer_label(layer, "rotary"),
                  Rotate{plan_.microbatch, job_.sequence, heads, kv_heads, model_.head_dim,
                         model_.rope_theta, true},
                  {all(dqkv_)}, {all(dqkv_)});
  }
  linear_input_grad(block, layer_label(layer, "qkv"), dqkv_, dnorm_, qkv_width_, model_.hidden,
                    p.qkv_weight);
  reduce_tensor(block, layer_label(layer, "qkv"), dnorm_);
  linear_weight_grad(block, layer_label(layer, "qkv"), dqkv_, b.norm1, qkv_width_, model_.hidden,
                     p.qkv_weight, p.qkv_bias);
  normalize_grad(block, layer_label(layer, "norm1"), dnorm_, x_[l], b.norm1_statistics,
                 p.norm1_weight, p.norm1_bias, true);
}

}  // namespace orrery::core
