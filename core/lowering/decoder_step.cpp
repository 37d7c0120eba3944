// The end of a decoder stage's step: decoder_stage.h. Per bucket, in backward order, the gradients
// are summed over the data ways (with sharding: reduce-scattered to the rank that owns the slice,
// then all-reduced over the replicas of that slice) while backward still runs on earlier layers;
// then the global norm, the update of the owned slice, and the all-gather of the parameters. With
// ZeRO stage 2 the reduce-scatter is done within the backward passes; with stage 3 the parameters are
// not gathered here, but where they are used. Source: Rajbhandari et al., ZeRO, SC 2020.

#include <algorithm>

#include "core/lowering/decoder_stage.h"

namespace orrery::core {

Block DecoderStage::begin() const {
  BlockBuilder block(role_, "begin", dtype_bytes(job_.precision));
  block.set_pass(Pass::OptimizerStep);
  const auto zero = [&](const char* label, BufferId id) {
    block.compute(label, Zero{all(id).count}, {}, {all(id)});
  };
  zero("gradients", gradients_);
  zero("loss", loss_);
  zero("squared gradient norm", norm_sum_);
  return block.take();
}

void DecoderStage::reduce_normalizations(BlockBuilder& block, std::size_t bucket) const {
  if (!plan_.sequence_parallel) return;
  const int first_layer = parameters_.has_embedding ? 1 : 0;
  for (int part = buckets_[bucket].last_part; part >= buckets_[bucket].first_part; --part) {
    const int layer = part - first_layer;
    if (layer < 0) continue;
    const ParameterRange norms = layer < slice_.layers()
                                     ? parameters_.layers[static_cast<std::size_t>(layer)].norms
                                     : *parameters_.final_norm;
    block.collective("bucket " + std::to_string(bucket) + " norms", CollectiveKind::AllReduce,
                     *slots_.tensor, gradient(norms), Stream::Data);
  }
}

/// What of a bucket's reduction is left for the step's end.
void DecoderStage::reduce_bucket(BlockBuilder& block, std::size_t index) const {
  const GradientBucket& bucket = buckets_[index];
  const std::string label = "bucket " + std::to_string(index);
  if (bucket.whole) {
    reduce_normalizations(block, index);
    const int parts = static_cast<int>(parameters_.parts.size());
    const auto tied = [&](ParameterRange range) {
      block.collective("tied embedding", CollectiveKind::AllReduce, *slots_.tied_embedding,
                       gradient(range), Stream::Data);
    };
    if (slots_.tied_embedding && parameters_.has_embedding && bucket.first_part == 0) {
      tied(*parameters_.token_embedding);
    }
    if (slots_.tied_embedding && parameters_.has_head && bucket.last_part == parts - 1) {
      tied(*parameters_.output_weight);
    }
    if (slots_.sharding) {
      block.collective(label, CollectiveKind::ReduceScatter, *slots_.sharding,
                       gradient(bucket.parameters), Stream::Data);
    }
  }
  if (!slots_.data) return;
  const double bytes = static_cast<double>(bucket.parameters.count) / slice_.sharding_ways *
                       dtype_bytes(DType::Float32);
  Instruction instruction;
  instruction.label = label;
  instruction.operation =
      Collective{CollectiveKind::AllReduce, *slots_.data, Reduction::Sum, Bytes(bytes)};
  instruction.stream = Stream::Data;
  instruction.reads = instruction.writes = {own_gradients(bucket)};
  block.add(std::move(instruction));
}

void DecoderStage::update_bucket(BlockBuilder& block, std::size_t index) const {
  const GradientBucket& bucket = buckets_[index];
  const View values = own_values(bucket);
  const std::int64_t count = bucket.parameters.count / slice_.sharding_ways;
  std::vector<View> reads = {own_gradients(bucket), all(norm_), values};
  std::vector<View> writes = {values};
  for (const BufferId state : state_) {
    reads.push_back({state, bucket.slice_first, count, std::nullopt});
    writes.push_back({state, bucket.slice_first, count, std::nullopt});
  }
  const std::string label = "bucket " + std::to_string(index);
  block.compute(
      label,
      OptimizerUpdate{count, job_.optimizer, {bucket.parameters.first, slice_.sharding_ways}},
      reads, writes);
  if (slots_.sharding && plan_.sharding_stage < 3) {
    block.collective(label, CollectiveKind::AllGather, *slots_.sharding,
                     value(block, bucket.parameters), Stream::Data);
  }
}

Block DecoderStage::step() const {
  BlockBuilder block(role_, "step", dtype_bytes(job_.precision));
  block.set_pass(Pass::OptimizerStep);
  // Backward order, but a bucket that waits for another stage's gradient comes last, lest it hold
  // up the others.
  std::vector<std::size_t> order;
  for (std::size_t b = buckets_.size(); b-- > 0;) order.push_back(b);
  if (slots_.tied_embedding && parameters_.has_head) {
    std::rotate(order.begin(), order.begin() + 1, order.end());
  }
  for (const std::size_t b : order) reduce_bucket(block, b);
  for (const std::size_t b : order) {
    const ParameterRange& parameters = buckets_[b].parameters;
    block.compute("bucket " + std::to_string(b),
                  SquaredNorm{parameters.count / slice_.sharding_ways,
                              {parameters.first, slice_.sharding_ways}},
                  {own_gradients(buckets_[b])}, {all(norm_sum_)});
  }
  const auto reduce_scalar = [&](const char* label, const std::optional<GroupSlot>& group,
                                 BufferId id) {
    if (group) {
      block.collective(label, CollectiveKind::AllReduce, *group, all(id), Stream::Data);
    }
  };
  reduce_scalar("squared gradient norm", slots_.model, norm_sum_);
  reduce_scalar("loss", slots_.world, loss_);
  block.compute("gradient norm", ClipFactor{job_.clip_norm.has_value(), job_.clip_norm.value_or(0)},
                {all(norm_sum_)}, {all(norm_)});
  for (std::size_t b = 0; b < buckets_.size(); ++b) update_bucket(block, b);
  return block.take();
}

}  // namespace orrery::core
