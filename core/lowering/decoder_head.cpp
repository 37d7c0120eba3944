// Embedding and head of a decoder, at the ends of the pipeline: decoder_stage.h.

#include "core/lowering/decoder_stage.h"

namespace orrery::core {

void DecoderStage::forward_head(BlockBuilder& block) const {
  normalize(block, "head.norm", y_.back(), head_->norm, head_->norm_statistics,
            *parameters_.final_norm_weight, parameters_.final_norm_bias);
  const BufferId input = all_rows(block, "head.logits", head_->norm, gathered_);
  linear(block, "head.logits", input, head_->logits, vocab_rows_, model_.hidden,
         *parameters_.output_weight, std::nullopt);
  block.compute("loss",
                CrossEntropyStatistics{rows_, vocab_rows_, model_.vocab, slice_.tensor_ways},
                {all(head_->logits), all(*targets_)}, {all(head_->statistics)});
  if (slots_.tensor) {
    block.gather("loss", *slots_.tensor, all(head_->statistics), all(head_->all_statistics),
                 Stream::Tensor);
  }
  const double targets = static_cast<double>(job_.global_batch) * job_.sequence;
  block.compute(
      "loss", CrossEntropyGrad{rows_, vocab_rows_, model_.vocab, slice_.tensor_ways, 1.0 / targets},
      {all(head_->all_statistics), all(*targets_), all(head_->logits)},
      {all(head_->logits), all(loss_)});
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

void DecoderStage::head_weight_grad(BlockBuilder& block, BufferId input) const {
  linear_weight_grad(block, "head.logits", head_->logits, input, vocab_rows_, model_.hidden,
                     *parameters_.output_weight, std::nullopt);
}

void DecoderStage::embedding_grad(BlockBuilder& block) const {
  const BufferId dx = all_rows(block, "embedding", gradients_of_.front().input, gathered_);
  std::vector<View> writes = {gradient(*parameters_.token_embedding)};
  const bool positions = parameters_.position_embedding.has_value();
  if (positions) writes.push_back(gradient(*parameters_.position_embedding));
  block.compute("embedding",
                EmbedGrad{rows_, sequence_, model_.hidden, vocab_rows_, slice_.tensor_ways,
                          positions, false, part_},
                {all(*tokens_), all(dx)}, writes);
}

}  // namespace orrery::core
