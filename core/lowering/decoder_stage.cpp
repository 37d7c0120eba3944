#include "core/lowering/decoder_stage.h"

#include <utility>

#include "core/error.h"
#include "core/lowering/decoder_attention.h"
#include "core/lowering/decoder_experts.h"
#include "core/lowering/decoder_feed_forward.h"
#include "core/lowering/decoder_head.h"

namespace orrery::core {

namespace {

/// Forward again up to the activation; the layer's own output is not needed, but see
/// DensePlan::recompute_whole. What experts return is: it is the gradient of the router's weights.
void recompute_layer(DecoderBlock& block, int layer) {
  const StageShape& shape = block.shape();
  block.set_pass(Pass::Recompute);
  forward_attention(block, layer);
  if (shape.has_experts()) {
    run_experts(block, layer);
  } else {
    activate_feed_forward(block, layer);
    if (shape.plan.recompute_whole) project_feed_forward(block, layer);
  }
  block.set_pass(Pass::Backward);
}

}  // namespace

DecoderStage::DecoderStage(const Transformer& model, const DensePlan& plan, const Job& job,
                           const StageSlice& slice, const StageSlots& slots, Role& role)
    : shape_(model, plan, job, slice, slots),
      buffers_(add_stage_buffers(shape_, role)),
      buckets_(shape_, buffers_),
      role_(role) {}

DecoderBlock DecoderStage::open(std::string name) const {
  return {role_, std::move(name), shape_, buffers_, buckets_};
}

Block DecoderStage::forward(int chunk) const {
  DecoderBlock block = open(shape_.block_name("forward", chunk));
  const int begin = shape_.first_layer(chunk);
  const int end = shape_.first_layer(chunk + 1);
  if (shape_.starts_model(chunk) || shape_.ends_model(chunk)) {
    block.set_pass(Pass::Load);
    block.compute("tokens", LoadTokens{shape_.plan.microbatch, shape_.sequence, shape_.part}, {},
                  {block.all(*buffers_.tokens), block.all(*buffers_.targets)}, Stream::Host);
  }
  block.set_pass(Pass::Forward);
  if (shape_.starts_model(chunk)) {
    buckets_.gather_parameters(block, buckets_.bucket_of(*shape_.parameters.token_embedding));
    forward_embedding(block);
  } else {
    block.receive("activation", *shape_.slots.previous, Channel::Activation,
                  buffers_.x[static_cast<std::size_t>(begin)]);
  }
  for (int l = begin; l < end; ++l) {
    for (const std::size_t b : buckets_.begun_buckets(l, begin)) {
      buckets_.gather_parameters(block, b);
    }
    forward_attention(block, l);
    if (shape_.has_experts()) {
      forward_experts(block, l);
    } else {
      forward_feed_forward(block, l);
    }
  }
  if (shape_.ends_model(chunk)) {
    for (const std::size_t bucket : buckets_.head_buckets()) {
      const bool gathered = shape_.starts_model(chunk) && shape_.output_is_embedding() &&
                            bucket == buckets_.bucket_of(*shape_.parameters.token_embedding);
      if (!gathered) buckets_.gather_parameters(block, bucket);
    }
    forward_head(block);
  } else {
    block.send("activation", *shape_.slots.next, Channel::Activation,
               buffers_.y[static_cast<std::size_t>(end - 1)]);
  }
  return block.take();
}

Block DecoderStage::backward(int chunk) const {
  DecoderBlock block = open(shape_.block_name(shape_.splits ? "input grad" : "backward", chunk));
  block.set_pass(Pass::Backward);
  block.set_backward();
  const int begin = shape_.first_layer(chunk);
  const int end = shape_.first_layer(chunk + 1);
  if (shape_.ends_model(chunk)) {
    for (const std::size_t bucket : buckets_.head_buckets()) {
      buckets_.gather_parameters(block, bucket);
      buckets_.begin_gradients(block, bucket);
    }
    backward_head(block);
    for (const std::size_t bucket : buckets_.head_buckets()) {
      if (!(shape_.starts_model(chunk) && bucket == 0)) buckets_.end_gradients(block, bucket);
    }
  } else {
    block.receive("gradient", *shape_.slots.next, Channel::Gradient,
                  buffers_.gradients_of[static_cast<std::size_t>(end - 1)].output);
  }
  for (int l = end - 1; l >= begin; --l) {
    for (const std::size_t b : buckets_.ended_buckets(l, end)) {
      buckets_.gather_parameters(block, b);
      buckets_.begin_gradients(block, b);
    }
    if (shape_.recomputes(l, Recompute::Full)) recompute_layer(block, l);
    if (shape_.has_experts()) {
      backward_experts(block, l);
    } else {
      backward_feed_forward(block, l);
    }
    backward_attention(block, l);
    for (const std::size_t b : buckets_.begun_buckets(l, begin)) buckets_.end_gradients(block, b);
  }
  if (!shape_.starts_model(chunk)) {
    block.send("gradient", *shape_.slots.previous, Channel::Gradient,
               buffers_.gradients_of[static_cast<std::size_t>(begin)].input);
  } else if (!shape_.splits) {
    const std::size_t bucket = buckets_.bucket_of(*shape_.parameters.token_embedding);
    if (!(shape_.ends_model(chunk) && shape_.output_is_embedding())) {
      buckets_.begin_gradients(block, bucket);
    }
    embedding_grad(block);
    buckets_.end_gradients(block, bucket);
  }
  return block.take();
}

/// In backward order, so that the last layers' gradients are complete first.
Block DecoderStage::weight_grad(int chunk) const {
  ORRERY_CHECK(shape_.splits, "this schedule has no pass for weight gradients");
  DecoderBlock block = open(shape_.block_name("weight grad", chunk));
  const auto gathered = [&](int l, const char* part, BufferId rows, std::optional<BufferId> into) {
    return block.all_rows(shape_.layer_label(l, part), rows, into);
  };
  if (shape_.ends_model(chunk)) {
    head_weight_grad(block,
                     block.all_rows("head.logits", buffers_.head->norm, buffers_.gathered_again));
  }
  for (int l = shape_.first_layer(chunk + 1) - 1; l >= shape_.first_layer(chunk); --l) {
    const LayerBuffers& b = buffers_.layers[static_cast<std::size_t>(l)];
    const LayerGradients& g = buffers_.gradients_of[static_cast<std::size_t>(l)];
    if (shape_.has_experts()) {
      expert_weight_grads(block, l);
    } else {
      down_weight_grad(block, l, gathered(l, "down", g.output, buffers_.gathered));
      up_weight_grad(block, l, gathered(l, "up", b.norm2, buffers_.gathered_again));
    }
    out_weight_grad(block, l, gathered(l, "out", g.middle, buffers_.gathered));
    qkv_weight_grad(block, l, gathered(l, "qkv", b.norm1, buffers_.gathered_again));
  }
  if (shape_.starts_model(chunk)) {
    block.set_pass(Pass::WeightGrad);
    embedding_grad(block);
  }
  return block.take();
}

}  // namespace orrery::core
