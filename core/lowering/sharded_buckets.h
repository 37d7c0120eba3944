#pragma once
// Where the parameters and gradients of a decoder's stage are when an instruction needs them.
//
// Without sharding they lie in the stage's flat buffers. ZeRO stage 2 keeps this rank's slice of the
// gradients alone and reduces a bucket's full gradients within each backward pass; stage 3 keeps this
// rank's slice of the parameters too, and gathers a bucket's before its forward and again before its
// backward. Buckets of layers take turns with two buffers: while one is computed, the next is gathered
// or the last reduced. Source: Rajbhandari et al., ZeRO, SC 2020.

#include <cstddef>
#include <optional>
#include <vector>

#include "core/lowering/block_builder.h"
#include "core/lowering/decoder_buffers.h"
#include "core/lowering/decoder_shape.h"

namespace orrery::core {

class ShardedBuckets {
 public:
  ShardedBuckets(const StageShape& shape, const StageBuffers& buffers)
      : shape_(shape), buffers_(buffers) {}

  std::size_t bucket_of(ParameterRange) const;
  /// Buckets of which a layer of those from `begin` on, or up to `end`, is the first, or the last: of
  /// all but its experts, and of its experts.
  std::vector<std::size_t> begun_buckets(int layer, int begin) const;
  std::vector<std::size_t> ended_buckets(int layer, int end) const;
  std::vector<std::size_t> head_buckets() const;

  /// Of the parameters: where the block has them.
  View value(const BlockBuilder&, ParameterRange) const;
  View gradient(ParameterRange) const;
  /// What this rank updates: its values, and their gradients after reduction.
  View own_values(const GradientBucket&) const;
  View own_gradients(const GradientBucket&) const;

  /// ZeRO stage 3: all of a bucket's parameters, before they are used.
  void gather_parameters(BlockBuilder&, std::size_t bucket) const;
  /// ZeRO stage 2: clears a bucket's full gradients before a backward pass adds to them, and joins
  /// this rank's slice of their sum to its gradients.
  void begin_gradients(BlockBuilder&, std::size_t bucket) const;
  void end_gradients(BlockBuilder&, std::size_t bucket) const;
  /// Gradients of what every rank of a tensor group has, but of which each has summed only its rows
  /// (normalisations and router, with sequence parallelism) or its part of the columns (the router).
  void reduce_replicated(BlockBuilder&, std::size_t bucket) const;

 private:
  BufferId gathered_into(std::size_t bucket, bool backward) const;
  std::vector<std::size_t> buckets_of_layer(int layer) const;
  bool neighbours(std::size_t bucket, std::size_t other) const;
  std::optional<ParameterRange> replicated(const LayerParameters&) const;

  const StageShape& shape_;
  const StageBuffers& buffers_;
};

}  // namespace orrery::core
