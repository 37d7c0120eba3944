// The end of a decoder stage's step: decoder_stage.h. Per bucket, in backward order, the gradients
// are summed over the data ways (with sharding: reduce-scattered to the rank that owns the slice,
// then all-reduced over the replicas of that slice) while backward still runs on earlier layers;
// then the global norm, the update of the owned slice, and the all-gather of the parameters.
// Source: Rajbhandari et al., ZeRO, SC 2020 (stage 1).

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
  const std::size_t first = parameters_.has_embedding_bucket ? 1 : 0;
  if (bucket < first) return;
  const bool layer = bucket - first < parameters_.layers.size();
  const ParameterRange norms =
      layer ? parameters_.layers[bucket - first].norms : *parameters_.final_norm;
  block.collective("bucket " + std::to_string(bucket) + " norms", CollectiveKind::AllReduce,
                   *slots_.tensor, gradient(norms), Stream::Data);
}

void DecoderStage::reduce_bucket(BlockBuilder& block, std::size_t bucket) const {
  reduce_normalizations(block, bucket);
  const bool embedding = parameters_.has_embedding_bucket && bucket == 0;
  const bool head = parameters_.has_head_bucket && bucket + 1 == parameters_.buckets.size();
  if (slots_.tied_embedding && (embedding || head)) {
    const ParameterRange tied =
        embedding ? *parameters_.token_embedding : *parameters_.output_weight;
    block.collective("tied embedding", CollectiveKind::AllReduce, *slots_.tied_embedding,
                     gradient(tied), Stream::Data);
  }
  const std::string label = "bucket " + std::to_string(bucket);
  View range = gradient(parameters_.buckets[bucket]);
  if (slots_.sharding) {
    block.collective(label, CollectiveKind::ReduceScatter, *slots_.sharding, range, Stream::Data);
    range.slice = slots_.sharding;
  }
  if (slots_.data) {
    Instruction instruction;
    instruction.label = label;
    const double bytes =
        static_cast<double>(range.count) / slice_.sharding_ways * dtype_bytes(DType::Float32);
    instruction.operation =
        Collective{CollectiveKind::AllReduce, *slots_.data, Reduction::Sum, Bytes(bytes)};
    instruction.stream = Stream::Data;
    instruction.reads = {range};
    instruction.writes = {range};
    block.add(std::move(instruction));
  }
}

void DecoderStage::update_bucket(BlockBuilder& block, std::size_t bucket,
                                 std::int64_t state_first) const {
  View gradients = gradient(parameters_.buckets[bucket]);
  View values = value(parameters_.buckets[bucket]);
  gradients.slice = values.slice = slots_.sharding;
  const std::int64_t count = values.count / slice_.sharding_ways;
  std::vector<View> reads = {gradients, all(norm_), values};
  std::vector<View> writes = {values};
  for (const BufferId state : state_) {
    reads.push_back({state, state_first, count, std::nullopt});
    writes.push_back({state, state_first, count, std::nullopt});
  }
  const std::string label = "bucket " + std::to_string(bucket);
  block.compute(label, OptimizerUpdate{count, job_.optimizer}, reads, writes);
  if (slots_.sharding) {
    block.collective(label, CollectiveKind::AllGather, *slots_.sharding,
                     value(parameters_.buckets[bucket]), Stream::Data);
  }
}

Block DecoderStage::step() const {
  BlockBuilder block(role_, "step", dtype_bytes(job_.precision));
  block.set_pass(Pass::OptimizerStep);
  // Backward order, but a bucket that waits for another stage's gradient comes last, lest it hold
  // up the others.
  std::vector<std::size_t> order;
  for (std::size_t b = parameters_.buckets.size(); b-- > 0;) order.push_back(b);
  if (slots_.tied_embedding && parameters_.has_head_bucket) {
    std::rotate(order.begin(), order.begin() + 1, order.end());
  }
  for (const std::size_t b : order) reduce_bucket(block, b);
  for (const std::size_t b : order) {
    View gradients = gradient(parameters_.buckets[b]);
    gradients.slice = slots_.sharding;
    block.compute("bucket " + std::to_string(b),
                  SquaredNorm{gradients.count / slice_.sharding_ways}, {gradients},
                  {all(norm_sum_)});
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
  std::int64_t state_first = 0;
  for (std::size_t b = 0; b < parameters_.buckets.size(); ++b) {
    update_bucket(block, b, state_first);
    state_first += parameters_.buckets[b].count / slice_.sharding_ways;
  }
  return block.take();
}

}  // namespace orrery::core
