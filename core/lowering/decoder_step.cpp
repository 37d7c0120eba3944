// The end of a decoder stage's step: decoder_stage.h. Per bucket, in backward order, the gradients
// are summed over the data ways (with sharding: reduce-scattered to the rank that owns the slice,
// then all-reduced over the replicas of that slice) while backward still runs on earlier layers;
// then the global norm, the update of the owned slice, and the all-gather of the parameters. With
// ZeRO stage 2 the reduce-scatter is done within the backward passes; with stage 3 the parameters are
// not gathered here, but where they are used. Source: Rajbhandari et al., ZeRO, SC 2020.

#include <algorithm>

#include "core/lowering/decoder_stage.h"

namespace orrery::core {

namespace {

/// What of a bucket's reduction is left for the step's end.
void reduce_bucket(DecoderBlock& block, std::size_t index) {
  const StageShape& shape = block.shape();
  const ShardedBuckets& buckets = block.buckets();
  const GradientBucket& bucket = shape.buckets[index];
  const std::string label = "bucket " + std::to_string(index);
  if (bucket.whole) {
    buckets.reduce_normalizations(block, index);
    const int parts = static_cast<int>(shape.parameters.parts.size());
    const auto tied = [&](ParameterRange range) {
      block.collective("tied embedding", CollectiveKind::AllReduce, *shape.slots.tied_embedding,
                       block.gradient(range), Stream::Data);
    };
    if (shape.slots.tied_embedding && shape.parameters.has_embedding && bucket.first_part == 0) {
      tied(*shape.parameters.token_embedding);
    }
    if (shape.slots.tied_embedding && shape.parameters.has_head && bucket.last_part == parts - 1) {
      tied(*shape.parameters.output_weight);
    }
    if (shape.slots.sharding) {
      block.collective(label, CollectiveKind::ReduceScatter, *shape.slots.sharding,
                       block.gradient(bucket.parameters), Stream::Data);
    }
  }
  if (!shape.slots.data) return;
  const double bytes = static_cast<double>(bucket.parameters.count) / shape.slice.sharding_ways *
                       dtype_bytes(shape.job.gradient_precision);
  Instruction instruction;
  instruction.label = label;
  instruction.operation =
      Collective{CollectiveKind::AllReduce, *shape.slots.data, Reduction::Sum, Bytes(bytes)};
  instruction.stream = Stream::Data;
  instruction.reads = instruction.writes = {buckets.own_gradients(bucket)};
  block.add(std::move(instruction));
}

void update_bucket(DecoderBlock& block, std::size_t index) {
  const StageShape& shape = block.shape();
  const StageBuffers& buffers = block.buffers();
  const ShardedBuckets& buckets = block.buckets();
  const GradientBucket& bucket = shape.buckets[index];
  const View values = buckets.own_values(bucket);
  const std::int64_t count = bucket.parameters.count / shape.slice.sharding_ways;
  std::vector<View> reads = {buckets.own_gradients(bucket), block.all(buffers.norm), values};
  std::vector<View> writes = {values};
  for (const BufferId state : buffers.state) {
    reads.push_back({state, bucket.slice_first, count, std::nullopt});
    writes.push_back({state, bucket.slice_first, count, std::nullopt});
  }
  const std::string label = "bucket " + std::to_string(index);
  block.compute(
      label,
      OptimizerUpdate{
          count, shape.job.optimizer, {bucket.parameters.first, shape.slice.sharding_ways}},
      reads, writes);
  if (shape.slots.sharding && shape.plan.sharding_stage < 3) {
    block.collective(label, CollectiveKind::AllGather, *shape.slots.sharding,
                     block.value(bucket.parameters), Stream::Data);
  }
}

}  // namespace

Block DecoderStage::begin() const {
  DecoderBlock block = open("begin");
  block.set_pass(Pass::OptimizerStep);
  const auto zero = [&](const char* label, BufferId id) {
    block.compute(label, Zero{block.all(id).count}, {}, {block.all(id)});
  };
  zero("gradients", buffers_.gradients);
  zero("loss", buffers_.loss);
  zero("squared gradient norm", buffers_.norm_sum);
  return block.take();
}

Block DecoderStage::step() const {
  DecoderBlock block = open("step");
  block.set_pass(Pass::OptimizerStep);
  // Backward order, but a bucket that waits for another stage's gradient comes last, lest it hold
  // up the others.
  std::vector<std::size_t> order;
  for (std::size_t b = shape_.buckets.size(); b-- > 0;) order.push_back(b);
  if (shape_.slots.tied_embedding && shape_.parameters.has_head) {
    std::rotate(order.begin(), order.begin() + 1, order.end());
  }
  for (const std::size_t b : order) reduce_bucket(block, b);
  for (const std::size_t b : order) {
    const ParameterRange& parameters = shape_.buckets[b].parameters;
    block.compute("bucket " + std::to_string(b),
                  SquaredNorm{parameters.count / shape_.slice.sharding_ways,
                              {parameters.first, shape_.slice.sharding_ways}},
                  {buckets_.own_gradients(shape_.buckets[b])}, {block.all(buffers_.norm_sum)});
  }
  const auto reduce_scalar = [&](const char* label, const std::optional<GroupSlot>& group,
                                 BufferId id) {
    if (group) {
      block.collective(label, CollectiveKind::AllReduce, *group, block.all(id), Stream::Data);
    }
  };
  reduce_scalar("squared gradient norm", shape_.slots.model, buffers_.norm_sum);
  reduce_scalar("loss", shape_.slots.world, buffers_.loss);
  block.compute("gradient norm",
                ClipFactor{shape_.job.clip_norm.has_value(), shape_.job.clip_norm.value_or(0)},
                {block.all(buffers_.norm_sum)}, {block.all(buffers_.norm)});
  for (std::size_t b = 0; b < shape_.buckets.size(); ++b) update_bucket(block, b);
  return block.take();
}

}  // namespace orrery::core
