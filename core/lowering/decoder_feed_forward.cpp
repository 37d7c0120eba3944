// The feed-forward half of a layer: decoder_stage.h.

#include "core/lowering/decoder_stage.h"

namespace orrery::core {

/// As far as backward needs it.
void DecoderStage::activate_feed_forward(BlockBuilder& block, int layer) const {
  const auto l = static_cast<std::size_t>(layer);
  const LayerBuffers& b = layers_[l];
  const LayerParameters& p = parameters_.layers[l];
  normalize(block, layer_label(layer, "norm2"), b.middle, b.norm2, b.norm2_statistics,
            p.norm2_weight, p.norm2_bias);
  const BufferId input = all_rows(block, layer_label(layer, "up"), b.norm2, gathered_);
  linear(block, layer_label(layer, "up"), input, b.up, up_width_, model_.hidden, p.up_weight,
         p.up_bias);
  block.compute(layer_label(layer, "activation"), Activate{rows_, ffn_, model_.activation},
                {all(b.up)}, {all(b.activated)});
}

View DecoderStage::project_feed_forward(BlockBuilder& block, int layer) const {
  const auto l = static_cast<std::size_t>(layer);
  linear(block, layer_label(layer, "down"), layers_[l].activated, projected_, model_.hidden, ffn_,
         parameters_.layers[l].down_weight, std::nullopt);
  return reduce_tensor(block, layer_label(layer, "down"), projected_);
}

void DecoderStage::forward_feed_forward(BlockBuilder& block, int layer) const {
  const auto l = static_cast<std::size_t>(layer);
  const LayerParameters& p = parameters_.layers[l];
  activate_feed_forward(block, layer);
  std::vector<View> reads = {all(layers_[l].middle), project_feed_forward(block, layer)};
  if (p.down_bias) reads.push_back(value(block, *p.down_bias));
  block.compute(layer_label(layer, "residual2"),
                Add{own_rows_, model_.hidden, p.down_bias.has_value()}, reads, {all(y_[l])});
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

}  // namespace orrery::core
