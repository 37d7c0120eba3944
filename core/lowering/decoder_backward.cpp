// The backward passes of a decoder's stage: decoder_stage.h.

#include "core/error.h"
#include "core/lowering/decoder_stage.h"

namespace orrery::core {

Block DecoderStage::backward(int chunk) const {
  BlockBuilder block(role_, block_name(splits_ ? "input grad" : "backward", chunk),
                     dtype_bytes(job_.precision));
  block.set_pass(Pass::Backward);
  block.set_backward();
  const int begin = first_layer(chunk);
  const int end = first_layer(chunk + 1);
  if (ends_model(chunk)) {
    for (const std::size_t bucket : head_buckets()) {
      gather_parameters(block, bucket);
      begin_gradients(block, bucket);
    }
    backward_head(block);
    for (const std::size_t bucket : head_buckets()) {
      if (!(starts_model(chunk) && bucket == 0)) end_gradients(block, bucket);
    }
  } else {
    block.receive("gradient", *slots_.next, Channel::Gradient,
                  gradients_of_[static_cast<std::size_t>(end - 1)].output);
  }
  for (int l = end - 1; l >= begin; --l) {
    if (ends_bucket(l, end)) {
      gather_parameters(block, bucket_of_layer(l));
      begin_gradients(block, bucket_of_layer(l));
    }
    if (recomputes(l, Recompute::Full)) recompute_layer(block, l);
    backward_feed_forward(block, l);
    backward_attention(block, l);
    if (begins_bucket(l, begin)) end_gradients(block, bucket_of_layer(l));
  }
  if (!starts_model(chunk)) {
    block.send("gradient", *slots_.previous, Channel::Gradient,
               gradients_of_[static_cast<std::size_t>(begin)].input);
  } else if (!splits_) {
    const std::size_t bucket = bucket_of(*parameters_.token_embedding);
    if (!(ends_model(chunk) && output_is_embedding())) begin_gradients(block, bucket);
    embedding_grad(block);
    end_gradients(block, bucket);
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

bool DecoderStage::recomputes(int layer, Recompute what) const {
  return plan_.recompute == what && layer < plan_.recompute_layers.value_or(slice_.layers());
}

/// Forward again up to the activation; the layer's own output is not needed, but see
/// DensePlan::recompute_whole.
void DecoderStage::recompute_layer(BlockBuilder& block, int layer) const {
  block.set_pass(Pass::Recompute);
  forward_attention(block, layer);
  activate_feed_forward(block, layer);
  if (plan_.recompute_whole) project_feed_forward(block, layer);
  block.set_pass(Pass::Backward);
}

}  // namespace orrery::core
