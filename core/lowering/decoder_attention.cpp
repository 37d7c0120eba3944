#include "core/lowering/decoder_attention.h"

#include "core/lowering/decoder_context.h"

namespace orrery::core {

namespace {

/// Up to what backward needs: the softmax of plain attention, all of flash attention.
void forward_inside(DecoderBlock& block, int layer) {
  const StageShape& shape = block.shape();
  const StageBuffers& buffers = block.buffers();
  const LayerBuffers& b = buffers.layers[static_cast<std::size_t>(layer)];
  const int heads = shape.attention_heads;
  const int kv_heads = shape.attention_kv_heads;
  if (shape.rings) {
    forward_ring(block, layer);
    return;
  }
  if (shape.plan.attention == AttentionKind::Flash) {
    block.compute(shape.layer_label(layer, "attention"),
                  Attention{shape.plan.microbatch, shape.attention_sequence, heads, kv_heads,
                            shape.model.head_dim, shape.model.causal},
                  {block.all(b.qkv)}, {block.all(b.attended), block.all(b.inside)});
    return;
  }
  block.compute(shape.layer_label(layer, "attention.scores"),
                AttentionScores{shape.plan.microbatch, shape.attention_sequence, heads, kv_heads,
                                shape.model.head_dim},
                {block.all(b.qkv)}, {block.all(b.inside)});
  block.compute(shape.layer_label(layer, "attention.softmax"),
                Softmax{shape.plan.microbatch, shape.attention_sequence, heads, shape.model.causal},
                {block.all(b.inside)}, {block.all(b.inside)});
}

void backward_inside(DecoderBlock& block, int layer) {
  const StageShape& shape = block.shape();
  const StageBuffers& buffers = block.buffers();
  const auto l = static_cast<std::size_t>(layer);
  const LayerBuffers& b = buffers.layers[l];
  const LayerGradients& g = buffers.gradients_of[l];
  const int heads = shape.attention_heads;
  const int kv_heads = shape.attention_kv_heads;
  const BufferId dqkv = buffers.dqkv_heads.value_or(g.qkv);
  if (shape.rings) {
    backward_ring(block, layer);
    return;
  }
  if (shape.plan.attention == AttentionKind::Flash) {
    block.compute(shape.layer_label(layer, "attention"),
                  AttentionGrad{shape.plan.microbatch, shape.attention_sequence, heads, kv_heads,
                                shape.model.head_dim, shape.model.causal},
                  {block.all(buffers.dattended.value_or(buffers.dattention)), block.all(b.qkv),
                   block.all(b.attended), block.all(b.inside)},
                  {block.all(dqkv)});
    return;
  }
  const View dscores = block.all(*buffers.dscores);
  block.compute(shape.layer_label(layer, "attention.context"),
                AttentionContextGrad{shape.plan.microbatch, shape.attention_sequence, heads,
                                     kv_heads, shape.model.head_dim},
                {block.all(buffers.dattended.value_or(buffers.dattention)), block.all(b.inside),
                 block.all(b.qkv)},
                {dscores, block.all(dqkv)});
  block.compute(shape.layer_label(layer, "attention.softmax"),
                SoftmaxGrad{shape.plan.microbatch, shape.attention_sequence, heads},
                {block.all(b.inside), dscores}, {dscores});
  block.compute(shape.layer_label(layer, "attention.scores"),
                AttentionScoresGrad{shape.plan.microbatch, shape.attention_sequence, heads,
                                    kv_heads, shape.model.head_dim},
                {dscores, block.all(b.qkv)}, {block.all(dqkv)});
}

}  // namespace

void forward_attention(DecoderBlock& block, int layer) {
  const StageShape& shape = block.shape();
  const StageBuffers& buffers = block.buffers();
  const auto l = static_cast<std::size_t>(layer);
  const LayerBuffers& b = buffers.layers[l];
  const LayerParameters& p = shape.parameters.layers[l];
  block.normalize(shape.layer_label(layer, "norm1"), buffers.x[l], b.norm1, b.norm1_statistics,
                  p.norm1_weight, p.norm1_bias);
  const BufferId input = block.all_rows(shape.layer_label(layer, "qkv"), b.norm1, buffers.gathered);
  block.linear(shape.layer_label(layer, "qkv"), input, buffers.qkv_rows.value_or(b.qkv),
               shape.qkv_width, shape.model.hidden, p.qkv_weight, p.qkv_bias);
  if (buffers.qkv_rows) {
    to_heads(block, shape.layer_label(layer, "qkv"), *buffers.qkv_rows, b.qkv, true);
  }
  const int heads = shape.attention_heads;
  const int kv_heads = shape.attention_kv_heads;
  if (shape.model.position == PositionKind::Rotary) {
    block.compute(shape.layer_label(layer, "rotary"),
                  Rotate{shape.plan.microbatch, shape.attention_sequence, heads, kv_heads,
                         shape.model.head_dim, shape.model.rope_theta, false,
                         shape.exchanges ? SequencePart{} : shape.part},
                  {block.all(b.qkv)}, {block.all(b.qkv)});
  }
  forward_inside(block, layer);
  if (shape.plan.attention == AttentionKind::Plain) {
    block.compute(shape.layer_label(layer, "attention.context"),
                  AttentionContext{shape.plan.microbatch, shape.attention_sequence, heads, kv_heads,
                                   shape.model.head_dim},
                  {block.all(b.inside), block.all(b.qkv)}, {block.all(b.attended)});
  }
  if (shape.exchanges) {
    to_rows(block, shape.layer_label(layer, "attention"), b.attended, b.attention, false);
  }
  block.linear(shape.layer_label(layer, "out"), b.attention, buffers.projected, shape.model.hidden,
               shape.attention_width, p.out_weight, std::nullopt);
  const View projected = block.reduce_tensor(shape.layer_label(layer, "out"), buffers.projected);
  std::vector<View> reads = {block.all(buffers.x[l]), projected};
  if (p.out_bias) reads.push_back(block.value(*p.out_bias));
  block.compute(shape.layer_label(layer, "residual1"),
                Add{shape.own_rows, shape.model.hidden, p.out_bias.has_value()}, reads,
                {block.all(b.middle)});
}

void backward_attention(DecoderBlock& block, int layer) {
  const StageShape& shape = block.shape();
  const StageBuffers& buffers = block.buffers();
  const auto l = static_cast<std::size_t>(layer);
  const LayerBuffers& b = buffers.layers[l];
  const LayerGradients& g = buffers.gradients_of[l];
  const LayerParameters& p = shape.parameters.layers[l];
  const BufferId dy = block.all_rows(shape.layer_label(layer, "out"), g.middle, buffers.gathered);
  const BufferId input = block.for_weight_grad(shape.layer_label(layer, "qkv"), b.norm1);
  block.linear_input_grad(shape.layer_label(layer, "out"), dy, buffers.dattention,
                          shape.model.hidden, shape.attention_width, p.out_weight);
  if (!shape.splits) out_weight_grad(block, layer, dy);
  const int heads = shape.attention_heads;
  const int kv_heads = shape.attention_kv_heads;
  if (shape.recomputes(layer, Recompute::Selective)) {
    block.set_pass(Pass::Recompute);
    forward_inside(block, layer);
    block.set_pass(Pass::Backward);
  }
  if (buffers.dattended) {
    to_heads(block, shape.layer_label(layer, "attention"), buffers.dattention, *buffers.dattended,
             false);
  }
  backward_inside(block, layer);
  const BufferId dqkv = buffers.dqkv_heads.value_or(g.qkv);
  if (shape.model.position == PositionKind::Rotary) {
    block.compute(shape.layer_label(layer, "rotary"),
                  Rotate{shape.plan.microbatch, shape.attention_sequence, heads, kv_heads,
                         shape.model.head_dim, shape.model.rope_theta, true,
                         shape.exchanges ? SequencePart{} : shape.part},
                  {block.all(dqkv)}, {block.all(dqkv)});
  }
  if (buffers.dqkv_heads) to_rows(block, shape.layer_label(layer, "qkv"), dqkv, g.qkv, true);
  block.linear_input_grad(shape.layer_label(layer, "qkv"), g.qkv, buffers.dnorm, shape.qkv_width,
                          shape.model.hidden, p.qkv_weight);
  const View dnorm = block.reduce_tensor(shape.layer_label(layer, "qkv"), buffers.dnorm);
  if (!shape.splits) qkv_weight_grad(block, layer, input);
  block.normalize_grad(shape.layer_label(layer, "norm1"),
                       {dnorm, buffers.x[l], b.norm1_statistics, g.middle, g.input}, p.norm1_weight,
                       p.norm1_bias);
}

void out_weight_grad(DecoderBlock& block, int layer, BufferId dy) {
  const StageShape& shape = block.shape();
  const StageBuffers& buffers = block.buffers();
  const auto l = static_cast<std::size_t>(layer);
  const LayerParameters& p = shape.parameters.layers[l];
  block.linear_weight_grad(shape.layer_label(layer, "out"), dy, buffers.layers[l].attention,
                           shape.model.hidden, shape.attention_width, p.out_weight, p.out_bias);
}

void qkv_weight_grad(DecoderBlock& block, int layer, BufferId input) {
  const StageShape& shape = block.shape();
  const StageBuffers& buffers = block.buffers();
  const auto l = static_cast<std::size_t>(layer);
  const LayerParameters& p = shape.parameters.layers[l];
  block.linear_weight_grad(shape.layer_label(layer, "qkv"), buffers.gradients_of[l].qkv, input,
                           shape.qkv_width, shape.model.hidden, p.qkv_weight, p.qkv_bias);
}

}  // namespace orrery::core
