// The end of a decoder stage's step: decoder_stage.h. Per bucket, in backward order, the gradients
// are summed over the data ways (with sharding: reduce-scattered to the rank that owns the slice,
// then all-reduced over the replicas of that slice) while backward still runs on earlier layers;
// then the global norm, the update of the owned slice, and the all-gather of the parameters. With
// ZeRO stage 2 the reduce-scatter is done within the backward passes; with stage 3 the parameters are
// not gathered here, but where they are used. Source: Rajbhandari et al., ZeRO, SC 2020.

#include <algorithm>
#include <numeric>
#include <utility>

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
    buckets.reduce_replicated(block, index);
    const auto tied = [&](ParameterRange range) {
      block.collective("tied embedding", CollectiveKind::AllReduce, *shape.slots.tied_embedding,
                       block.gradient(range), Stream::Data);
    };
    if (shape.slots.tied_embedding && bucket.embedding) {
      tied(*shape.parameters.token_embedding);
    }
    if (shape.slots.tied_embedding && bucket.head) {
      tied(*shape.parameters.output_weight);
    }
    if (const auto group = shape.sharding_of(bucket)) {
      block.collective(label, CollectiveKind::ReduceScatter, *group,
                       block.gradient(bucket.parameters), Stream::Data);
    }
  }
  const std::optional<GroupSlot> data = shape.data_of(bucket);
  if (!data) return;
  const double bytes =
      static_cast<double>(bucket.slice()) * dtype_bytes(shape.job.gradient_precision);
  Instruction instruction;
  instruction.label = label;
  instruction.operation =
      Collective{CollectiveKind::AllReduce, *data, Reduction::Sum, Bytes(bytes)};
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
  const std::int64_t count = bucket.slice();
  const std::optional<GroupSlot> group = shape.sharding_of(bucket);
  std::vector<View> reads = {buckets.own_gradients(bucket), block.all(buffers.norm), values};
  std::vector<View> writes = {values};
  for (const BufferId state : buffers.state) {
    reads.push_back({state, bucket.slice_first, count, std::nullopt});
    writes.push_back({state, bucket.slice_first, count, std::nullopt});
  }
  const std::string label = "bucket " + std::to_string(index);
  block.compute(label,
                OptimizerUpdate{count, shape.job.optimizer, {bucket.parameters.first, group}},
                reads, writes);
  if (group && shape.plan.sharding_stage < 3) {
    block.collective(label, CollectiveKind::AllGather, *group, block.value(bucket.parameters),
                     Stream::Data);
  }
}

/// Where a bucket stands in the model: the embedding, the layers, the head.
int place_of(const GradientBucket& bucket, const StageShape& shape) {
  if (bucket.embedding) return -1;
  return bucket.layers > 0 ? bucket.first_layer : shape.slice.layers();
}

/// Buckets in the model's order, or the reverse of it; the experts of a layer after the rest of it,
/// whose gradients are complete last.
std::vector<std::size_t> bucket_order(const StageShape& shape, bool backward) {
  std::vector<std::size_t> order(shape.buckets.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t b) {
    const int place = place_of(shape.buckets[b], shape);
    return std::pair(backward ? -place : place, shape.buckets[b].experts);
  });
  return order;
}

/// From the head to the embedding; but a bucket that waits for another stage's gradient comes last,
/// lest it hold up the others.
std::vector<std::size_t> backward_order(const StageShape& shape) {
  std::vector<std::size_t> order = bucket_order(shape, true);
  if (shape.slots.tied_embedding && shape.parameters.has_head) {
    std::rotate(order.begin(), order.begin() + 1, order.end());
  }
  return order;
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
  const std::vector<std::size_t> order = backward_order(shape_);
  for (const std::size_t b : order) reduce_bucket(block, b);
  for (const std::size_t b : order) {
    const GradientBucket& bucket = shape_.buckets[b];
    // The model group spans the expert axis.
    const int copies = bucket.experts || bucket.ways > 1 ? 1 : shape_.plan.expert;
    block.compute(
        "bucket " + std::to_string(b),
        SquaredNorm{bucket.slice(), {bucket.parameters.first, shape_.sharding_of(bucket)}, copies},
        {buckets_.own_gradients(bucket)}, {block.all(buffers_.norm_sum)});
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
  for (const std::size_t b : bucket_order(shape_, false)) update_bucket(block, b);
  return block.take();
}

}  // namespace orrery::core
