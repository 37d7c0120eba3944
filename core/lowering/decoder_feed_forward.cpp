#include "core/lowering/decoder_feed_forward.h"

namespace orrery::core {

void activate_feed_forward(DecoderBlock& block, int layer) {
  const StageShape& shape = block.shape();
  const StageBuffers& buffers = block.buffers();
  const auto l = static_cast<std::size_t>(layer);
  const LayerBuffers& b = buffers.layers[l];
  const LayerParameters& p = shape.parameters.layers[l];
  block.normalize(shape.layer_label(layer, "norm2"), b.middle, b.norm2, b.norm2_statistics,
                  p.norm2_weight, p.norm2_bias);
  const BufferId input = block.all_rows(shape.layer_label(layer, "up"), b.norm2, buffers.gathered);
  block.linear(shape.layer_label(layer, "up"), input, b.up, shape.up_width, shape.model.hidden,
               p.up_weight, p.up_bias);
  block.compute(shape.layer_label(layer, "activation"),
                Activate{shape.rows, shape.ffn, shape.model.activation}, {block.all(b.up)},
                {block.all(b.activated)});
}

View project_feed_forward(DecoderBlock& block, int layer) {
  const StageShape& shape = block.shape();
  const StageBuffers& buffers = block.buffers();
  const auto l = static_cast<std::size_t>(layer);
  block.linear(shape.layer_label(layer, "down"), buffers.layers[l].activated, buffers.projected,
               shape.model.hidden, shape.ffn, shape.parameters.layers[l].down_weight, std::nullopt);
  return block.reduce_tensor(shape.layer_label(layer, "down"), buffers.projected);
}

void forward_feed_forward(DecoderBlock& block, int layer) {
  const StageShape& shape = block.shape();
  const StageBuffers& buffers = block.buffers();
  const auto l = static_cast<std::size_t>(layer);
  const LayerParameters& p = shape.parameters.layers[l];
  activate_feed_forward(block, layer);
  std::vector<View> reads = {block.all(buffers.layers[l].middle),
                             project_feed_forward(block, layer)};
  if (p.down_bias) reads.push_back(block.value(*p.down_bias));
  block.compute(shape.layer_label(layer, "residual2"),
                Add{shape.own_rows, shape.model.hidden, p.down_bias.has_value()}, reads,
                {block.all(buffers.y[l])});
}

void backward_feed_forward(DecoderBlock& block, int layer) {
  const StageShape& shape = block.shape();
  const StageBuffers& buffers = block.buffers();
  const auto l = static_cast<std::size_t>(layer);
  const LayerBuffers& b = buffers.layers[l];
  const LayerGradients& g = buffers.gradients_of[l];
  const LayerParameters& p = shape.parameters.layers[l];
  const BufferId dy = block.all_rows(shape.layer_label(layer, "down"), g.output, buffers.gathered);
  const BufferId input = block.for_weight_grad(shape.layer_label(layer, "up"), b.norm2);
  block.linear_input_grad(shape.layer_label(layer, "down"), dy, buffers.dactivated,
                          shape.model.hidden, shape.ffn, p.down_weight);
  if (!shape.splits) down_weight_grad(block, layer, dy);
  block.compute(shape.layer_label(layer, "activation"),
                ActivateGrad{shape.rows, shape.ffn, shape.model.activation},
                {block.all(buffers.dactivated), block.all(b.up)}, {block.all(g.up)});
  block.linear_input_grad(shape.layer_label(layer, "up"), g.up, buffers.dnorm, shape.up_width,
                          shape.model.hidden, p.up_weight);
  const View dnorm = block.reduce_tensor(shape.layer_label(layer, "up"), buffers.dnorm);
  if (!shape.splits) up_weight_grad(block, layer, input);
  block.normalize_grad(shape.layer_label(layer, "norm2"),
                       {dnorm, b.middle, b.norm2_statistics, g.output, g.middle}, p.norm2_weight,
                       p.norm2_bias);
}

void down_weight_grad(DecoderBlock& block, int layer, BufferId dy) {
  const StageShape& shape = block.shape();
  const StageBuffers& buffers = block.buffers();
  const auto l = static_cast<std::size_t>(layer);
  const LayerParameters& p = shape.parameters.layers[l];
  block.linear_weight_grad(shape.layer_label(layer, "down"), dy, buffers.layers[l].activated,
                           shape.model.hidden, shape.ffn, p.down_weight, p.down_bias);
}

void up_weight_grad(DecoderBlock& block, int layer, BufferId input) {
  const StageShape& shape = block.shape();
  const StageBuffers& buffers = block.buffers();
  const auto l = static_cast<std::size_t>(layer);
  const LayerParameters& p = shape.parameters.layers[l];
  block.linear_weight_grad(shape.layer_label(layer, "up"), buffers.gradients_of[l].up, input,
                           shape.up_width, shape.model.hidden, p.up_weight, p.up_bias);
}

}  // namespace orrery::core
