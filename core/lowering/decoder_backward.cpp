// The backward passes of a decoder's stage: decoder_stage.h.

#include "core/error.h"
#include "core/lowering/decoder_stage.h"

namespace orrery::core {

Block DecoderStage::backward(int chunk) const {
  BlockBuilder block(role_, block_name(splits_ ? "input grad" : "backward", chunk),
                     dtype_bytes(job_.precision));
  block.set_pass(Pass::Backward);
  const int begin = first_layer(chunk);
  const int end = first_layer(chunk + 1);
  if (ends_model(chunk)) {
    backward_head(block);
  } else {
    block.receive("gradient", *slots_.next, Channel::Gradient,
                  gradients_of_[static_cast<std::size_t>(end - 1)].output);
  }
  for (int l = end - 1; l >= begin; --l) {
    if (plan_.recompute == Recompute::Full) recompute_layer(block, l);
    backward_feed_forward(block, l);
    backward_attention(block, l);
  }
  if (!starts_model(chunk)) {
    block.send("gradient", *slots_.previous, Channel::Gradient,
               gradients_of_[static_cast<std::size_t>(begin)].input);
  } else if (!splits_) {
    embedding_grad(block);
  }
  return block.take();
}

/// In backward order, so that the last layers' gradients are complete first.
Block DecoderStage::weight_grad(int chunk) const {
  ORRERY_CHECK(splits_, "this schedule has no pass for weight gradients");
  BlockBuilder block(role_, block_name("weight grad", chunk), dtype_bytes(job_.precision));
  const auto gathered = [&](int l, const char* part, BufferId rows, std::optional<BufferId> into) {
    return all_rows(block, layer_label(l, part), rows, into);
  };
  if (ends_model(chunk)) {
    head_weight_grad(block, all_rows(block, "head.logits", head_->norm, gathered_again_));
  }
  for (int l = first_layer(chunk + 1) - 1; l >= first_layer(chunk); --l) {
    const LayerBuffers& b = layers_[static_cast<std::size_t>(l)];
    const LayerGradients& g = gradients_of_[static_cast<std::size_t>(l)];
    down_weight_grad(block, l, gathered(l, "down", g.output, gathered_));
    up_weight_grad(block, l, gathered(l, "up", b.norm2, gathered_again_));
    out_weight_grad(block, l, gathered(l, "out", g.middle, gathered_));
    qkv_weight_grad(block, l, gathered(l, "qkv", b.norm1, gathered_again_));
  }
  if (starts_model(chunk)) {
    block.set_pass(Pass::WeightGrad);
    embedding_grad(block);
  }
  return block.take();
}

void DecoderStage::embedding_grad(BlockBuilder& block) const {
  const BufferId dx = all_rows(block, "embedding", gradients_of_.front().input, gathered_);
  std::vector<View> writes = {gradient(*parameters_.token_embedding)};
  const bool positions = parameters_.position_embedding.has_value();
  if (positions) writes.push_back(gradient(*parameters_.position_embedding));
  block.compute("embedding",
                EmbedGrad{rows_, job_.sequence, model_.hidden, vocab_rows_, slice_.tensor_ways,
                          positions, false},
                {all(*tokens_), all(dx)}, writes);
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
  const BufferId input = all_rows(block, layer_label(layer, "up"), b.norm2, gathered_);
  linear(block, layer_label(layer, "up"), input, b.up, up_width_, model_.hidden, p.up_weight,
         p.up_bias);
  block.compute(layer_label(layer, "activation"), Activate{rows_, ffn_, model_.activation},
                {all(b.up)}, {all(b.activated)});
  block.set_pass(Pass::Backward);
}

void DecoderStage::backward_head(BlockBuilder& block) const {
  const BufferId input = for_weight_grad(block, "head.logits", head_->norm);
  linear_input_grad(block, "head.logits", head_->logits, dnorm_, vocab_rows_, model_.hidden,
                    *parameters_.output_weight);
  const View dnorm = reduce_tensor(block, "head.logits", dnorm_);
  if (!splits_) head_weight_grad(block, input);
  normalize_grad(block, "head.norm",
                 {dnorm, y_.back(), head_->norm_statistics, {}, gradients_of_.back().output},
                 *parameters_.final_norm_weight, parameters_.final_norm_bias);
}

void DecoderStage::backward_feed_forward(BlockBuilder& block, int layer) const {
  const auto l = static_cast<std::size_t>(layer);
  const LayerBuffers& b = layers_[l];
  const LayerGradients& g = gradients_of_[l];
  const LayerParameters& p = parameters_.layers[l];
  const BufferId dy = all_rows(block, layer_label(layer, "down"), g.output, gathered_);
  const BufferId input = for_weight_grad(block, layer_label(layer, "up"), b.norm2);
  linear_input_grad(block, layer_label(layer, "down"), dy, dactivated_, model_.hidden, ffn_,
                    p.down_weight);
  if (!splits_) down_weight_grad(block, layer, dy);
  block.compute(layer_label(layer, "activation"), ActivateGrad{rows_, ffn_, model_.activation},
                {all(dactivated_), all(b.up)}, {all(g.up)});
  linear_input_grad(block, layer_label(layer, "up"), g.up, dnorm_, up_width_, model_.hidden,
                    p.up_weight);
  const View dnorm = reduce_tensor(block, layer_label(layer, "up"), dnorm_);
  if (!splits_) up_weight_grad(block, layer, input);
  normalize_grad(block, layer_label(layer, "norm2"),
                 {dnorm, b.middle, b.norm2_statistics, g.output, g.middle}, p.norm2_weight,
                 p.norm2_bias);
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
  const int heads = static_cast<int>(heads_);
  const int kv_heads = static_cast<int>(kv_heads_);
  block.compute(layer_label(layer, "attention"),
                AttentionGrad{plan_.microbatch, job_.sequence, heads, kv_heads, model_.head_dim,
                              model_.causal},
                {all(dattention_), all(b.qkv), all(b.attention), all(b.log_sum_exp)}, {all(g.qkv)});
  if (model_.position == PositionKind::Rotary) {
    block.compute(layer_label(layer, "rotary"),
                  Rotate{plan_.microbatch, job_.sequence, heads, kv_heads, model_.head_dim,
                         model_.rope_theta, true},
                  {all(g.qkv)}, {all(g.qkv)});
  }
  linear_input_grad(block, layer_label(layer, "qkv"), g.qkv, dnorm_, qkv_width_, model_.hidden,
                    p.qkv_weight);
  const View dnorm = reduce_tensor(block, layer_label(layer, "qkv"), dnorm_);
  if (!splits_) qkv_weight_grad(block, layer, input);
  normalize_grad(block, layer_label(layer, "norm1"),
                 {dnorm, x_[l], b.norm1_statistics, g.middle, g.input}, p.norm1_weight,
                 p.norm1_bias);
}

// ---- weight gradients ----------------------------------------------------------------------

BufferId DecoderStage::for_weight_grad(BlockBuilder& block, const std::string& label,
                                       BufferId input) const {
  return splits_ ? input : all_rows(block, label, input, gathered_again_);
}

void DecoderStage::head_weight_grad(BlockBuilder& block, BufferId input) const {
  linear_weight_grad(block, "head.logits", head_->logits, input, vocab_rows_, model_.hidden,
                     *parameters_.output_weight, std::nullopt);
}

void DecoderStage::down_weight_grad(BlockBuilder& block, int layer, BufferId dy) const {
  const auto l = static_cast<std::size_t>(layer);
  const LayerParameters& p = parameters_.layers[l];
  linear_weight_grad(block, layer_label(layer, "down"), dy, layers_[l].activated, model_.hidden,
                     ffn_, p.down_weight, p.down_bias);
}

void DecoderStage::up_weight_grad(BlockBuilder& block, int layer, BufferId input) const {
  const auto l = static_cast<std::size_t>(layer);
  const LayerParameters& p = parameters_.layers[l];
  linear_weight_grad(block, layer_label(layer, "up"), gradients_of_[l].up, input, up_width_,
                     model_.hidden, p.up_weight, p.up_bias);
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
