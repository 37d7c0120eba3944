// Attention between the ranks that share a sequence: decoder_stage.h.
//
// All-to-all:
//
//   this rank's rows, all heads ─ deal heads ─ all-to-all ─ join sequences ─ all rows, its heads
//
// and back by the same steps in reverse.
//
// Ring of c ranks: at step s a rank attends to the keys and values of the rank s places before it,
// while it sends them on and receives the next; c − 1 sends forward. Backward they go round again, and
// their gradients follow them until, after c sends, they are home.

#include "core/lowering/decoder_stage.h"

namespace orrery::core {

void DecoderStage::to_heads(BlockBuilder& block, const std::string& label, BufferId rows,
                            BufferId heads, bool keys_and_values) const {
  const std::int64_t width = keys_and_values ? qkv_width_ : attention_width_;
  const int kv_heads = keys_and_values ? static_cast<int>(kv_heads_) : 0;
  const View sent{*sent_, 0, rows_ * width, std::nullopt};
  const View received{*received_, 0, rows_ * width, std::nullopt};
  block.compute(
      label + ".deal",
      DealHeads{rows_, static_cast<int>(heads_), kv_heads, model_.head_dim, plan_.context, false},
      {all(rows)}, {sent});
  block.exchange(label, *slots_.context, sent, received, Stream::Context);
  block.compute(
      label + ".join",
      JoinSequences{plan_.microbatch, job_.sequence, width / plan_.context, plan_.context, false},
      {received}, {all(heads)});
}

void DecoderStage::to_rows(BlockBuilder& block, const std::string& label, BufferId heads,
                           BufferId rows, bool keys_and_values) const {
  const std::int64_t width = keys_and_values ? qkv_width_ : attention_width_;
  const int kv_heads = keys_and_values ? static_cast<int>(kv_heads_) : 0;
  const View sent{*sent_, 0, rows_ * width, std::nullopt};
  const View received{*received_, 0, rows_ * width, std::nullopt};
  block.compute(
      label + ".cut",
      JoinSequences{plan_.microbatch, job_.sequence, width / plan_.context, plan_.context, true},
      {all(heads)}, {sent});
  block.exchange(label, *slots_.context, sent, received, Stream::Context);
  block.compute(
      label + ".collect",
      DealHeads{rows_, static_cast<int>(heads_), kv_heads, model_.head_dim, plan_.context, true},
      {received}, {all(rows)});
}

// Hands what is in turn to the next rank and receives its follower.
void DecoderStage::pass_on(BlockBuilder& block, const std::string& label,
                           const std::array<BufferId, 2>& buffers, int step) const {
  const auto turn = static_cast<std::size_t>(step % 2);
  block.send(label, *slots_.ring_next, Channel::Context, buffers[turn]);
  block.receive(label, *slots_.ring_previous, Channel::Context, buffers[1 - turn]);
}

void DecoderStage::forward_ring(BlockBuilder& block, int layer) const {
  const LayerBuffers& b = layers_[static_cast<std::size_t>(layer)];
  const std::string label = layer_label(layer, "attention");
  const int heads = static_cast<int>(heads_);
  const int kv_heads = static_cast<int>(kv_heads_);
  const std::int64_t width = 2 * kv_heads_ * model_.head_dim;
  block.compute(label + ".keys and values",
                CopyColumns{rows_, qkv_width_, attention_width_, width, 0, width}, {all(b.qkv)},
                {all(kv_[0])});
  for (int step = 0; step < plan_.context; ++step) {
    if (step + 1 < plan_.context) pass_on(block, label, kv_, step);
    block.compute(label,
                  RingAttention{plan_.microbatch, sequence_, heads, kv_heads, model_.head_dim,
                                plan_.context, step},
                  {all(b.qkv), all(kv_[static_cast<std::size_t>(step % 2)])},
                  {all(b.attention), all(b.inside)});
  }
}

void DecoderStage::backward_ring(BlockBuilder& block, int layer) const {
  const LayerBuffers& b = layers_[static_cast<std::size_t>(layer)];
  const BufferId dqkv = gradients_of_[static_cast<std::size_t>(layer)].qkv;
  const std::string label = layer_label(layer, "attention");
  const int heads = static_cast<int>(heads_);
  const int kv_heads = static_cast<int>(kv_heads_);
  const std::int64_t width = 2 * kv_heads_ * model_.head_dim;
  block.compute(label + ".keys and values",
                CopyColumns{rows_, qkv_width_, attention_width_, width, 0, width}, {all(b.qkv)},
                {all(kv_[0])});
  for (int step = 0; step < plan_.context; ++step) {
    const auto turn = static_cast<std::size_t>(step % 2);
    if (step + 1 < plan_.context) pass_on(block, label, kv_, step);
    block.compute(label,
                  RingAttentionGrad{plan_.microbatch, sequence_, heads, kv_heads, model_.head_dim,
                                    plan_.context, step},
                  {all(dattention_), all(b.qkv), all(kv_[turn]), all(b.attention), all(b.inside)},
                  {all(dqkv), all(dkv_[turn])});
    pass_on(block, label + ".gradient", dkv_, step);
  }
  block.compute(label + ".keys and values",
                CopyColumns{rows_, width, 0, qkv_width_, attention_width_, width},
                {all(dkv_[static_cast<std::size_t>(plan_.context % 2)])}, {all(dqkv)});
}

}  // namespace orrery::core
