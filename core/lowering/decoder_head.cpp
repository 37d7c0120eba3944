#include "core/lowering/decoder_head.h"

namespace orrery::core {

void forward_embedding(DecoderBlock& block) {
  const StageShape& shape = block.shape();
  const StageBuffers& buffers = block.buffers();
  const StageParameters& parameters = shape.parameters;
  const BufferId input = buffers.x.front();
  std::vector<View> reads = {block.all(*buffers.tokens), block.value(*parameters.token_embedding)};
  const bool positions = parameters.position_embedding.has_value();
  if (positions) reads.push_back(block.value(*parameters.position_embedding));
  block.compute("embedding",
                Embed{shape.rows, shape.sequence, shape.model.hidden, shape.vocab_rows,
                      shape.slice.tensor_ways, positions, false, shape.part},
                reads, {block.all(shape.plan.sequence_parallel ? buffers.projected : input)});
  if (shape.plan.sequence_parallel) {
    block.scatter("embedding", *shape.slots.tensor, block.all(buffers.projected), block.all(input),
                  Stream::Tensor);
  } else {
    block.reduce_tensor("embedding", input);
  }
}

void forward_head(DecoderBlock& block) {
  const StageShape& shape = block.shape();
  const StageBuffers& buffers = block.buffers();
  block.normalize("head.norm", buffers.y.back(), buffers.head->norm, buffers.head->norm_statistics,
                  *shape.parameters.final_norm_weight, shape.parameters.final_norm_bias);
  const BufferId input = block.all_rows("head.logits", buffers.head->norm, buffers.gathered);
  block.linear("head.logits", input, buffers.head->logits, shape.vocab_rows, shape.model.hidden,
               *shape.parameters.output_weight, std::nullopt);
  block.compute("loss",
                CrossEntropyStatistics{shape.rows, shape.vocab_rows, shape.model.vocab,
                                       shape.slice.tensor_ways},
                {block.all(buffers.head->logits), block.all(*buffers.targets)},
                {block.all(buffers.head->statistics)});
  if (shape.slots.tensor) {
    block.gather("loss", *shape.slots.tensor, block.all(buffers.head->statistics),
                 block.all(buffers.head->all_statistics), Stream::Tensor);
  }
  const double targets = static_cast<double>(shape.job.global_batch) * shape.job.sequence;
  block.compute("loss",
                CrossEntropyGrad{shape.rows, shape.vocab_rows, shape.model.vocab,
                                 shape.slice.tensor_ways, 1.0 / targets},
                {block.all(buffers.head->all_statistics), block.all(*buffers.targets),
                 block.all(buffers.head->logits)},
                {block.all(buffers.head->logits), block.all(buffers.loss)});
}

void backward_head(DecoderBlock& block) {
  const StageShape& shape = block.shape();
  const StageBuffers& buffers = block.buffers();
  const BufferId input = block.for_weight_grad("head.logits", buffers.head->norm);
  block.linear_input_grad("head.logits", buffers.head->logits, buffers.dnorm, shape.vocab_rows,
                          shape.model.hidden, *shape.parameters.output_weight);
  const View dnorm = block.reduce_tensor("head.logits", buffers.dnorm);
  if (!shape.splits) head_weight_grad(block, input);
  block.normalize_grad("head.norm",
                       {dnorm,
                        buffers.y.back(),
                        buffers.head->norm_statistics,
                        {},
                        buffers.gradients_of.back().output},
                       *shape.parameters.final_norm_weight, shape.parameters.final_norm_bias);
}

void head_weight_grad(DecoderBlock& block, BufferId input) {
  const StageShape& shape = block.shape();
  const StageBuffers& buffers = block.buffers();
  block.linear_weight_grad("head.logits", buffers.head->logits, input, shape.vocab_rows,
                           shape.model.hidden, *shape.parameters.output_weight, std::nullopt);
}

void embedding_grad(DecoderBlock& block) {
  const StageShape& shape = block.shape();
  const StageBuffers& buffers = block.buffers();
  const BufferId dx =
      block.all_rows("embedding", buffers.gradients_of.front().input, buffers.gathered);
  std::vector<View> writes = {block.gradient(*shape.parameters.token_embedding)};
  const bool positions = shape.parameters.position_embedding.has_value();
  if (positions) writes.push_back(block.gradient(*shape.parameters.position_embedding));
  block.compute("embedding",
                EmbedGrad{shape.rows, shape.sequence, shape.model.hidden, shape.vocab_rows,
                          shape.slice.tensor_ways, positions, false, shape.part},
                {block.all(*buffers.tokens), block.all(dx)}, writes);
}

}  // namespace orrery::core
