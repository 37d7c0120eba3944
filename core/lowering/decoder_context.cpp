#include "core/lowering/decoder_context.h"

#include <array>

namespace orrery::core {

namespace {

// Hands what is in turn to the next rank and receives its follower.
void pass_on(DecoderBlock& block, const std::string& label, const std::array<BufferId, 2>& pair,
             int step) {
  const StageShape& shape = block.shape();
  const auto turn = static_cast<std::size_t>(step % 2);
  block.send(label, *shape.slots.ring_next, Channel::Context, pair[turn]);
  block.receive(label, *shape.slots.ring_previous, Channel::Context, pair[1 - turn]);
}

}  // namespace

void to_heads(DecoderBlock& block, const std::string& label, BufferId rows, BufferId heads,
              bool keys_and_values) {
  const StageShape& shape = block.shape();
  const StageBuffers& buffers = block.buffers();
  const std::int64_t width = keys_and_values ? shape.qkv_width : shape.attention_width;
  const int kv_heads = keys_and_values ? static_cast<int>(shape.kv_heads) : 0;
  const View sent{*buffers.sent, 0, shape.rows * width, std::nullopt};
  const View received{*buffers.received, 0, shape.rows * width, std::nullopt};
  block.compute(label + ".deal",
                DealHeads{shape.rows, static_cast<int>(shape.heads), kv_heads, shape.model.head_dim,
                          shape.plan.context, false},
                {block.all(rows)}, {sent});
  block.exchange(label, *shape.slots.context, sent, received, Stream::Context);
  block.compute(label + ".join",
                JoinSequences{shape.plan.microbatch, shape.job.sequence, width / shape.plan.context,
                              shape.plan.context, false},
                {received}, {block.all(heads)});
}

void to_rows(DecoderBlock& block, const std::string& label, BufferId heads, BufferId rows,
             bool keys_and_values) {
  const StageShape& shape = block.shape();
  const StageBuffers& buffers = block.buffers();
  const std::int64_t width = keys_and_values ? shape.qkv_width : shape.attention_width;
  const int kv_heads = keys_and_values ? static_cast<int>(shape.kv_heads) : 0;
  const View sent{*buffers.sent, 0, shape.rows * width, std::nullopt};
  const View received{*buffers.received, 0, shape.rows * width, std::nullopt};
  block.compute(label + ".cut",
                JoinSequences{shape.plan.microbatch, shape.job.sequence, width / shape.plan.context,
                              shape.plan.context, true},
                {block.all(heads)}, {sent});
  block.exchange(label, *shape.slots.context, sent, received, Stream::Context);
  block.compute(label + ".collect",
                DealHeads{shape.rows, static_cast<int>(shape.heads), kv_heads, shape.model.head_dim,
                          shape.plan.context, true},
                {received}, {block.all(rows)});
}

void forward_ring(DecoderBlock& block, int layer) {
  const StageShape& shape = block.shape();
  const StageBuffers& buffers = block.buffers();
  const LayerBuffers& b = buffers.layers[static_cast<std::size_t>(layer)];
  const std::string label = shape.layer_label(layer, "attention");
  const int heads = static_cast<int>(shape.heads);
  const int kv_heads = static_cast<int>(shape.kv_heads);
  const std::int64_t width = 2 * shape.kv_heads * shape.model.head_dim;
  block.compute(label + ".keys and values",
                CopyColumns{shape.rows, shape.qkv_width, shape.attention_width, width, 0, width},
                {block.all(b.qkv)}, {block.all(buffers.kv[0])});
  for (int step = 0; step < shape.plan.context; ++step) {
    if (step + 1 < shape.plan.context) pass_on(block, label, buffers.kv, step);
    block.compute(label,
                  RingAttention{shape.plan.microbatch, shape.sequence, heads, kv_heads,
                                shape.model.head_dim, shape.plan.context, step},
                  {block.all(b.qkv), block.all(buffers.kv[static_cast<std::size_t>(step % 2)])},
                  {block.all(b.attention), block.all(b.inside)});
  }
}

void backward_ring(DecoderBlock& block, int layer) {
  const StageShape& shape = block.shape();
  const StageBuffers& buffers = block.buffers();
  const LayerBuffers& b = buffers.layers[static_cast<std::size_t>(layer)];
  const BufferId dqkv = buffers.gradients_of[static_cast<std::size_t>(layer)].qkv;
  const std::string label = shape.layer_label(layer, "attention");
  const int heads = static_cast<int>(shape.heads);
  const int kv_heads = static_cast<int>(shape.kv_heads);
  const std::int64_t width = 2 * shape.kv_heads * shape.model.head_dim;
  block.compute(label + ".keys and values",
                CopyColumns{shape.rows, shape.qkv_width, shape.attention_width, width, 0, width},
                {block.all(b.qkv)}, {block.all(buffers.kv[0])});
  for (int step = 0; step < shape.plan.context; ++step) {
    const auto turn = static_cast<std::size_t>(step % 2);
    if (step + 1 < shape.plan.context) pass_on(block, label, buffers.kv, step);
    block.compute(label,
                  RingAttentionGrad{shape.plan.microbatch, shape.sequence, heads, kv_heads,
                                    shape.model.head_dim, shape.plan.context, step},
                  {block.all(buffers.dattention), block.all(b.qkv), block.all(buffers.kv[turn]),
                   block.all(b.attention), block.all(b.inside)},
                  {block.all(dqkv), block.all(buffers.dkv[turn])});
    pass_on(block, label + ".gradient", buffers.dkv, step);
  }
  block.compute(label + ".keys and values",
                CopyColumns{shape.rows, width, 0, shape.qkv_width, shape.attention_width, width},
                {block.all(buffers.dkv[static_cast<std::size_t>(shape.plan.context % 2)])},
                {block.all(dqkv)});
}

}  // namespace orrery::core
