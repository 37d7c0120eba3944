#include "core/lowering/decoder_stage.h"

#include <fmt/format.h>

#include "core/lowering/pipeline_schedule.h"

namespace orrery::core {

DecoderStage::DecoderStage(const Transformer& model, const DensePlan& plan, const Job& job,
                           const StageSlice& slice, const StageSlots& slots, Role& role)
    : model_(model),
      plan_(plan),
      job_(job),
      slice_(slice),
      slots_(slots),
      role_(role),
      parameters_(stage_parameters(model, slice)),
      exchanges_(plan.context > 1 && plan.context_method == ContextMethod::AllToAll),
      rings_(plan.context > 1 && plan.context_method == ContextMethod::Ring),
      sequence_(job.sequence / plan.context),
      part_{plan.context, rings_},
      rows_(plan.microbatch * sequence_),
      own_rows_(plan.sequence_parallel ? rows_ / plan.tensor : rows_),
      heads_(model.heads / plan.tensor),
      kv_heads_(model.kv_heads / plan.tensor),
      attention_sequence_(exchanges_ ? job.sequence : sequence_),
      attention_heads_(static_cast<int>(heads_) / (exchanges_ ? plan.context : 1)),
      attention_kv_heads_(static_cast<int>(kv_heads_) / (exchanges_ ? plan.context : 1)),
      qkv_width_((heads_ + 2 * kv_heads_) * model.head_dim),
      attention_width_(heads_ * model.head_dim),
      ffn_(model.ffn / plan.tensor),
      up_width_(model.gated() ? 2 * ffn_ : ffn_),
      vocab_rows_(vocabulary_rows(model, plan.tensor)),
      buckets_(gradient_buckets(parameters_, slice, plan, slots.tied_embedding.has_value())),
      splits_(splits_backward(plan.schedule)) {
  add_run_buffers();
  add_activation_buffers();
  if (slice_.last) add_head_buffers();
  add_scratch_buffers();
}

View DecoderStage::value(const BlockBuilder& block, ParameterRange range) const {
  if (gathered_parameters_.empty()) return {values_, range.first, range.count, std::nullopt};
  const std::size_t bucket = bucket_of(range);
  return {gathered_into(bucket, block.backward()), range.first - buckets_[bucket].parameters.first,
          range.count, std::nullopt};
}

View DecoderStage::gradient(ParameterRange range) const {
  const std::size_t b = bucket_of(range);
  const GradientBucket& bucket = buckets_[b];
  const std::int64_t first = range.first - bucket.parameters.first;
  if (!bucket.whole) return {*full_gradients_[b], first, range.count, std::nullopt};
  return {gradients_, bucket.gradients_first + first, range.count, std::nullopt};
}

std::string DecoderStage::layer_label(int layer, const char* part) const {
  return "layers." + std::to_string(slice_.model_layer(layer)) + "." + part;
}

std::string DecoderStage::block_name(const char* pass, int chunk) const {
  return chunk_count() == 1 ? pass : fmt::format("{} {}", pass, chunk);
}

int DecoderStage::first_layer(int chunk) const {
  int layer = 0;
  for (int c = 0; c < chunk; ++c) layer += slice_.chunks[static_cast<std::size_t>(c)].count;
  return layer;
}

void DecoderStage::normalize(BlockBuilder& block, const std::string& label, BufferId x, BufferId y,
                             BufferId statistics, ParameterRange weight,
                             std::optional<ParameterRange> bias) const {
  std::vector<View> reads = {all(x), value(block, weight)};
  if (bias) reads.push_back(value(block, *bias));
  block.compute(label,
                Normalize{own_rows_, model_.hidden, model_.normalization, model_.norm_epsilon},
                reads, {all(y), all(statistics)});
}

void DecoderStage::normalize_grad(BlockBuilder& block, const std::string& label,
                                  const NormGradBuffers& b, ParameterRange weight,
                                  std::optional<ParameterRange> bias) const {
  const bool in_place = b.residual && *b.residual == b.dx;
  std::vector<View> writes = {all(b.dx), gradient(weight)};
  if (bias) writes.push_back(gradient(*bias));
  block.compute(label, NormalizeGrad{own_rows_, model_.hidden, model_.normalization, in_place},
                {b.dy, all(b.x), value(block, weight), all(b.statistics)}, writes);
  if (!b.residual || in_place) return;
  block.compute(label + ".residual", Add{own_rows_, model_.hidden, false},
                {all(b.dx), all(*b.residual)}, {all(b.dx)});
}

void DecoderStage::linear(BlockBuilder& block, const std::string& label, BufferId x, BufferId y,
                          std::int64_t out, std::int64_t in, ParameterRange weight,
                          std::optional<ParameterRange> bias) const {
  std::vector<View> reads = {all(x), value(block, weight)};
  if (bias) reads.push_back(value(block, *bias));
  block.compute(label, Linear{rows_, out, in, bias.has_value()}, reads, {all(y)});
}

void DecoderStage::linear_input_grad(BlockBuilder& block, const std::string& label, BufferId dy,
                                     BufferId dx, std::int64_t out, std::int64_t in,
                                     ParameterRange weight) const {
  block.compute(label, LinearInputGrad{rows_, out, in, false}, {all(dy), value(block, weight)},
                {all(dx)});
}

void DecoderStage::linear_weight_grad(BlockBuilder& block, const std::string& label, BufferId dy,
                                      BufferId x, std::int64_t out, std::int64_t in,
                                      ParameterRange weight,
                                      std::optional<ParameterRange> bias) const {
  std::vector<View> writes = {gradient(weight)};
  if (bias) writes.push_back(gradient(*bias));
  block.set_pass(Pass::WeightGrad);
  block.compute(label, LinearWeightGrad{rows_, out, in, bias.has_value()}, {all(dy), all(x)},
                writes);
  block.set_pass(Pass::Backward);
}

View DecoderStage::reduce_tensor(BlockBuilder& block, const std::string& label, BufferId id) const {
  View sum = all(id);
  if (!slots_.tensor) return sum;
  if (!plan_.sequence_parallel) {
    block.collective(label, CollectiveKind::AllReduce, *slots_.tensor, sum, Stream::Tensor);
    return sum;
  }
  block.collective(label, CollectiveKind::ReduceScatter, *slots_.tensor, sum, Stream::Tensor);
  sum.slice = slots_.tensor;
  return sum;
}

BufferId DecoderStage::all_rows(BlockBuilder& block, const std::string& label, BufferId rows,
                                std::optional<BufferId> into) const {
  if (!into) return rows;
  block.gather(label, *slots_.tensor, all(rows), all(*into), Stream::Tensor);
  return *into;
}

Block DecoderStage::forward(int chunk) const {
  BlockBuilder block(role_, block_name("forward", chunk), dtype_bytes(job_.precision));
  const int begin = first_layer(chunk);
  const int end = first_layer(chunk + 1);
  const BufferId input = x_[static_cast<std::size_t>(begin)];
  if (starts_model(chunk) || ends_model(chunk)) {
    block.set_pass(Pass::Load);
    block.compute("tokens", LoadTokens{plan_.microbatch, sequence_, part_}, {},
                  {all(*tokens_), all(*targets_)}, Stream::Host);
  }
  block.set_pass(Pass::Forward);
  if (starts_model(chunk)) {
    gather_parameters(block, bucket_of(*parameters_.token_embedding));
    std::vector<View> reads = {all(*tokens_), value(block, *parameters_.token_embedding)};
    const bool positions = parameters_.position_embedding.has_value();
    if (positions) reads.push_back(value(block, *parameters_.position_embedding));
    block.compute("embedding",
                  Embed{rows_, sequence_, model_.hidden, vocab_rows_, slice_.tensor_ways, positions,
                        false, part_},
                  reads, {all(plan_.sequence_parallel ? projected_ : input)});
    if (plan_.sequence_parallel) {
      block.scatter("embedding", *slots_.tensor, all(projected_), all(input), Stream::Tensor);
    } else {
      reduce_tensor(block, "embedding", input);
    }
  } else {
    block.receive("activation", *slots_.previous, Channel::Activation, input);
  }
  for (int l = begin; l < end; ++l) {
    if (begins_bucket(l, begin)) gather_parameters(block, bucket_of_layer(l));
    forward_attention(block, l);
    forward_feed_forward(block, l);
  }
  if (ends_model(chunk)) {
    for (const std::size_t bucket : head_buckets()) {
      const bool gathered = starts_model(chunk) && output_is_embedding() &&
                            bucket == bucket_of(*parameters_.token_embedding);
      if (!gathered) gather_parameters(block, bucket);
    }
    forward_head(block);
  } else {
    block.send("activation", *slots_.next, Channel::Activation,
               y_[static_cast<std::size_t>(end - 1)]);
  }
  return block.take();
}

BufferId DecoderStage::for_weight_grad(BlockBuilder& block, const std::string& label,
                                       BufferId input) const {
  return splits_ ? input : all_rows(block, label, input, gathered_again_);
}

}  // namespace orrery::core
