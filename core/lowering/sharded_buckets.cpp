#include "core/lowering/sharded_buckets.h"

#include <algorithm>
#include <string>

namespace orrery::core {

std::size_t ShardedBuckets::bucket_of(ParameterRange range) const {
  const auto after = std::upper_bound(
      shape_.buckets.begin(), shape_.buckets.end(), range.first,
      [](std::int64_t first, const GradientBucket& b) { return first < b.parameters.first; });
  return static_cast<std::size_t>(after - shape_.buckets.begin()) - 1;
}

std::vector<std::size_t> ShardedBuckets::buckets_of_layer(int layer) const {
  const LayerParameters& p = shape_.parameters.layers[static_cast<std::size_t>(layer)];
  std::vector<std::size_t> result = {bucket_of(p.norm1_weight)};
  if (shape_.has_experts()) result.push_back(bucket_of(p.up_weight));
  return result;
}

std::vector<std::size_t> ShardedBuckets::begun_buckets(int layer, int begin) const {
  std::vector<std::size_t> result = buckets_of_layer(layer);
  if (layer == begin) return result;
  const std::vector<std::size_t> before = buckets_of_layer(layer - 1);
  std::erase_if(result, [&](std::size_t b) { return std::ranges::count(before, b) > 0; });
  return result;
}

std::vector<std::size_t> ShardedBuckets::ended_buckets(int layer, int end) const {
  std::vector<std::size_t> result = buckets_of_layer(layer);
  if (layer + 1 == end) return result;
  const std::vector<std::size_t> after = buckets_of_layer(layer + 1);
  std::erase_if(result, [&](std::size_t b) { return std::ranges::count(after, b) > 0; });
  return result;
}

std::vector<std::size_t> ShardedBuckets::head_buckets() const {
  const std::size_t norm = bucket_of(*shape_.parameters.final_norm);
  const std::size_t output = bucket_of(*shape_.parameters.output_weight);
  return output == norm ? std::vector{norm} : std::vector{output, norm};
}

bool ShardedBuckets::neighbours(std::size_t bucket, std::size_t other) const {
  return other < shape_.buckets.size() && shape_.buckets[other].layers > 0 &&
         shape_.buckets[other].experts == shape_.buckets[bucket].experts;
}

/// In turns: backward takes the other buffer than forward, so that the layer with which one ends and
/// the other begins is gathered beside it.
BufferId ShardedBuckets::gathered_into(std::size_t bucket, bool backward) const {
  if (!backward || shape_.buckets[bucket].layers == 0) {
    return *buffers_.gathered_parameters[bucket];
  }
  if (neighbours(bucket, bucket + 1)) return *buffers_.gathered_parameters[bucket + 1];
  const bool before = bucket > 0 && neighbours(bucket, bucket - 1);
  return *buffers_.gathered_parameters[before ? bucket - 1 : bucket];
}

View ShardedBuckets::value(const BlockBuilder& block, ParameterRange range) const {
  if (buffers_.gathered_parameters.empty()) {
    return {buffers_.values, range.first, range.count, std::nullopt};
  }
  const std::size_t b = bucket_of(range);
  const GradientBucket& bucket = shape_.buckets[b];
  const std::int64_t first = range.first - bucket.parameters.first;
  if (bucket.ways == 1) return {buffers_.values, bucket.slice_first + first, range.count, {}};
  return {gathered_into(b, block.backward()), first, range.count, std::nullopt};
}

View ShardedBuckets::gradient(ParameterRange range) const {
  const std::size_t b = bucket_of(range);
  const GradientBucket& bucket = shape_.buckets[b];
  const std::int64_t first = range.first - bucket.parameters.first;
  if (!bucket.whole) return {*buffers_.full_gradients[b], first, range.count, std::nullopt};
  return {buffers_.gradients, bucket.gradients_first + first, range.count, std::nullopt};
}

View ShardedBuckets::own_values(const GradientBucket& bucket) const {
  if (buffers_.gathered_parameters.empty()) {
    return {buffers_.values, bucket.parameters.first, bucket.parameters.count,
            shape_.sharding_of(bucket)};
  }
  return {buffers_.values, bucket.slice_first, bucket.slice(), {}};
}

View ShardedBuckets::own_gradients(const GradientBucket& bucket) const {
  if (bucket.whole) {
    return {buffers_.gradients, bucket.gradients_first, bucket.parameters.count,
            shape_.sharding_of(bucket)};
  }
  return {buffers_.gradients, bucket.gradients_first, bucket.slice(), {}};
}

void ShardedBuckets::gather_parameters(BlockBuilder& block, std::size_t bucket) const {
  const GradientBucket& b = shape_.buckets[bucket];
  if (buffers_.gathered_parameters.empty() || b.ways == 1) return;
  const View slice{buffers_.values, b.slice_first, b.slice(), {}};
  const View gathered{gathered_into(bucket, block.backward()), 0, b.parameters.count, {}};
  block.gather("bucket " + std::to_string(bucket), *shape_.sharding_of(b), slice, gathered,
               Stream::Gather);
}

void ShardedBuckets::begin_gradients(BlockBuilder& block, std::size_t bucket) const {
  const GradientBucket& b = shape_.buckets[bucket];
  if (b.whole) return;
  block.compute("bucket " + std::to_string(bucket), Zero{b.parameters.count}, {},
                {gradient(b.parameters)});
}

void ShardedBuckets::end_gradients(BlockBuilder& block, std::size_t bucket) const {
  const GradientBucket& b = shape_.buckets[bucket];
  if (b.whole) return;
  reduce_replicated(block, bucket);
  const std::string label = "bucket " + std::to_string(bucket);
  View sum = gradient(b.parameters);
  const std::optional<GroupSlot> group = shape_.sharding_of(b);
  block.collective(label, CollectiveKind::ReduceScatter, *group, sum, Stream::Data);
  sum.slice = group;
  block.compute(label, Accumulate{b.slice()}, {sum}, {own_gradients(b)}, Stream::Data);
}

std::optional<ParameterRange> ShardedBuckets::replicated(const LayerParameters& layer) const {
  if (!shape_.plan.sequence_parallel) return layer.router;
  const std::int64_t router = layer.router ? layer.router->count : 0;
  return ParameterRange{layer.norms.first, layer.norms.count + router};
}

void ShardedBuckets::reduce_replicated(BlockBuilder& block, std::size_t index) const {
  if (!shape_.slots.tensor) return;
  const GradientBucket& bucket = shape_.buckets[index];
  const auto reduce = [&](const std::optional<ParameterRange>& range) {
    if (!range) return;
    block.collective("bucket " + std::to_string(index) + " replicated", CollectiveKind::AllReduce,
                     *shape_.slots.tensor, gradient(*range), Stream::Data);
  };
  if (bucket.head && shape_.plan.sequence_parallel) reduce(shape_.parameters.final_norm);
  if (bucket.experts) return;
  for (int layer = bucket.first_layer + bucket.layers; layer-- > bucket.first_layer;) {
    reduce(replicated(shape_.parameters.layers[static_cast<std::size_t>(layer)]));
  }
}

}  // namespace orrery::core
