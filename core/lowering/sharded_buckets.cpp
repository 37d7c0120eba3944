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

std::size_t ShardedBuckets::bucket_of_layer(int layer) const {
  return bucket_of(shape_.parameters.layers[static_cast<std::size_t>(layer)].norm1_weight);
}

bool ShardedBuckets::begins_bucket(int layer, int begin) const {
  return layer == begin || bucket_of_layer(layer) != bucket_of_layer(layer - 1);
}

bool ShardedBuckets::ends_bucket(int layer, int end) const {
  return layer + 1 == end || bucket_of_layer(layer) != bucket_of_layer(layer + 1);
}

std::vector<std::size_t> ShardedBuckets::head_buckets() const {
  const std::size_t norm = bucket_of(*shape_.parameters.final_norm);
  const std::size_t output = bucket_of(*shape_.parameters.output_weight);
  return output == norm ? std::vector{norm} : std::vector{output, norm};
}

/// In turns: backward takes the other buffer than forward, so that the layer with which one ends and
/// the other begins is gathered beside it.
BufferId ShardedBuckets::gathered_into(std::size_t bucket, bool backward) const {
  if (!backward || !shape_.holds_layers(shape_.buckets[bucket])) {
    return *buffers_.gathered_parameters[bucket];
  }
  const bool after =
      bucket + 1 < shape_.buckets.size() && shape_.holds_layers(shape_.buckets[bucket + 1]);
  const bool before = bucket > 0 && shape_.holds_layers(shape_.buckets[bucket - 1]);
  if (after) return *buffers_.gathered_parameters[bucket + 1];
  return *buffers_.gathered_parameters[before ? bucket - 1 : bucket];
}

View ShardedBuckets::value(const BlockBuilder& block, ParameterRange range) const {
  if (buffers_.gathered_parameters.empty()) {
    return {buffers_.values, range.first, range.count, std::nullopt};
  }
  const std::size_t bucket = bucket_of(range);
  return {gathered_into(bucket, block.backward()),
          range.first - shape_.buckets[bucket].parameters.first, range.count, std::nullopt};
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
            shape_.slots.sharding};
  }
  return {buffers_.values,
          bucket.slice_first,
          bucket.parameters.count / shape_.slice.sharding_ways,
          {}};
}

View ShardedBuckets::own_gradients(const GradientBucket& bucket) const {
  if (bucket.whole) {
    return {buffers_.gradients, bucket.gradients_first, bucket.parameters.count,
            shape_.slots.sharding};
  }
  return {buffers_.gradients,
          bucket.gradients_first,
          bucket.parameters.count / shape_.slice.sharding_ways,
          {}};
}

void ShardedBuckets::gather_parameters(BlockBuilder& block, std::size_t bucket) const {
  if (buffers_.gathered_parameters.empty()) return;
  const GradientBucket& b = shape_.buckets[bucket];
  const View slice{
      buffers_.values, b.slice_first, b.parameters.count / shape_.slice.sharding_ways, {}};
  const View gathered{gathered_into(bucket, block.backward()), 0, b.parameters.count, {}};
  block.gather("bucket " + std::to_string(bucket), *shape_.slots.sharding, slice, gathered,
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
  reduce_normalizations(block, bucket);
  const std::string label = "bucket " + std::to_string(bucket);
  View sum = gradient(b.parameters);
  block.collective(label, CollectiveKind::ReduceScatter, *shape_.slots.sharding, sum, Stream::Data);
  sum.slice = shape_.slots.sharding;
  const std::int64_t count = b.parameters.count / shape_.slice.sharding_ways;
  block.compute(label, Accumulate{count}, {sum}, {own_gradients(b)}, Stream::Data);
}

void ShardedBuckets::reduce_normalizations(BlockBuilder& block, std::size_t bucket) const {
  if (!shape_.plan.sequence_parallel) return;
  const int first_layer = shape_.parameters.has_embedding ? 1 : 0;
  for (int part = shape_.buckets[bucket].last_part; part >= shape_.buckets[bucket].first_part;
       --part) {
    const int layer = part - first_layer;
    if (layer < 0) continue;
    const ParameterRange norms =
        layer < shape_.slice.layers()
            ? shape_.parameters.layers[static_cast<std::size_t>(layer)].norms
            : *shape_.parameters.final_norm;
    block.collective("bucket " + std::to_string(bucket) + " norms", CollectiveKind::AllReduce,
                     *shape_.slots.tensor, gradient(norms), Stream::Data);
  }
}

}  // namespace orrery::core
