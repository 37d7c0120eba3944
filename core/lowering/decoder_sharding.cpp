// Sharded gradients and parameters of a decoder's stage (ZeRO stages 2 and 3): decoder_stage.h.

#include <algorithm>

#include "core/lowering/decoder_stage.h"

namespace orrery::core {

/// Full gradients and gathered parameters live in buffers of their own throughout the step, which
/// layers take in turns of two: while one is computed, the next is gathered or the last reduced.
void DecoderStage::add_sharding_buffers() {
  std::int64_t largest = 0;
  for (const GradientBucket& bucket : buckets_) {
    if (holds_layers(bucket)) largest = std::max(largest, bucket.parameters.count);
  }
  const auto make = [&](const std::string& name, DType dtype, std::int64_t count) {
    return buffer(name, dtype, {count}, BufferKind::Communication, BufferScope::Run);
  };
  const auto add = [&](const std::string& name, DType dtype,
                       std::vector<std::optional<BufferId>>& by_bucket, bool of_whole) {
    std::vector<BufferId> turns;
    std::size_t turn = 0;
    for (const GradientBucket& bucket : buckets_) {
      if (bucket.whole && !of_whole) {
        by_bucket.push_back(std::nullopt);
      } else if (holds_layers(bucket)) {
        if (turns.size() < 2) {
          turns.push_back(make(name + (turns.empty() ? " of even buckets" : " of odd buckets"),
                               dtype, largest));
        }
        by_bucket.push_back(turns[turn++ % 2]);
      } else {
        const char* part = bucket.first_part == 0 ? " of the embedding" : " of the head";
        by_bucket.push_back(make(name + part, dtype, bucket.parameters.count));
      }
    }
  };
  if (plan_.sharding_stage >= 2) add("full gradients", DType::Float32, full_gradients_, false);
  if (plan_.sharding_stage == 3) {
    add("gathered parameters", job_.precision, gathered_parameters_, true);
  }
}

std::size_t DecoderStage::bucket_of(ParameterRange range) const {
  const auto after = std::upper_bound(
      buckets_.begin(), buckets_.end(), range.first,
      [](std::int64_t first, const GradientBucket& b) { return first < b.parameters.first; });
  return static_cast<std::size_t>(after - buckets_.begin()) - 1;
}

bool DecoderStage::holds_layers(const GradientBucket& bucket) const {
  const int first = parameters_.has_embedding ? 1 : 0;
  const int end = first + slice_.layers();
  return bucket.first_part < end && bucket.last_part >= first;
}

std::size_t DecoderStage::bucket_of_layer(int layer) const {
  return bucket_of(parameters_.layers[static_cast<std::size_t>(layer)].norm1_weight);
}

bool DecoderStage::begins_bucket(int layer, int begin) const {
  return layer == begin || bucket_of_layer(layer) != bucket_of_layer(layer - 1);
}

bool DecoderStage::ends_bucket(int layer, int end) const {
  return layer + 1 == end || bucket_of_layer(layer) != bucket_of_layer(layer + 1);
}

/// In turns: backward takes the other buffer than forward, so that the layer with which one ends and
/// the other begins is gathered beside it.
BufferId DecoderStage::gathered_into(std::size_t bucket, bool backward) const {
  if (!backward || !holds_layers(buckets_[bucket])) return *gathered_parameters_[bucket];
  const bool after = bucket + 1 < buckets_.size() && holds_layers(buckets_[bucket + 1]);
  const bool before = bucket > 0 && holds_layers(buckets_[bucket - 1]);
  if (after) return *gathered_parameters_[bucket + 1];
  return *gathered_parameters_[before ? bucket - 1 : bucket];
}

void DecoderStage::gather_parameters(BlockBuilder& block, std::size_t bucket) const {
  if (gathered_parameters_.empty()) return;
  const GradientBucket& b = buckets_[bucket];
  const View slice{values_, b.slice_first, b.parameters.count / slice_.sharding_ways, {}};
  const View gathered{gathered_into(bucket, block.backward()), 0, b.parameters.count, {}};
  block.gather("bucket " + std::to_string(bucket), *slots_.sharding, slice, gathered,
               Stream::Gather);
}

bool DecoderStage::output_is_embedding() const {
  return parameters_.token_embedding && parameters_.output_weight &&
         parameters_.output_weight->first == parameters_.token_embedding->first;
}

std::vector<std::size_t> DecoderStage::head_buckets() const {
  const std::size_t norm = bucket_of(*parameters_.final_norm);
  const std::size_t output = bucket_of(*parameters_.output_weight);
  return output == norm ? std::vector{norm} : std::vector{output, norm};
}

void DecoderStage::begin_gradients(BlockBuilder& block, std::size_t bucket) const {
  const GradientBucket& b = buckets_[bucket];
  if (b.whole) return;
  block.compute("bucket " + std::to_string(bucket), Zero{b.parameters.count}, {},
                {gradient(b.parameters)});
}

void DecoderStage::end_gradients(BlockBuilder& block, std::size_t bucket) const {
  const GradientBucket& b = buckets_[bucket];
  if (b.whole) return;
  reduce_normalizations(block, bucket);
  const std::string label = "bucket " + std::to_string(bucket);
  View sum = gradient(b.parameters);
  block.collective(label, CollectiveKind::ReduceScatter, *slots_.sharding, sum, Stream::Data);
  sum.slice = slots_.sharding;
  const std::int64_t count = b.parameters.count / slice_.sharding_ways;
  block.compute(label, Accumulate{count}, {sum}, {own_gradients(b)}, Stream::Data);
}

View DecoderStage::own_gradients(const GradientBucket& bucket) const {
  if (bucket.whole) {
    return {gradients_, bucket.gradients_first, bucket.parameters.count, slots_.sharding};
  }
  return {gradients_, bucket.gradients_first, bucket.parameters.count / slice_.sharding_ways, {}};
}

View DecoderStage::own_values(const GradientBucket& bucket) const {
  if (gathered_parameters_.empty()) {
    return {values_, bucket.parameters.first, bucket.parameters.count, slots_.sharding};
  }
  return {values_, bucket.slice_first, bucket.parameters.count / slice_.sharding_ways, {}};
}

}  // namespace orrery::core
