#pragma once
// Where the parameters and gradients of a decoder's stage are when an instruction needs them.
//
// Without sharding they lie in the stage's flat buffers. ZeRO stage 2 keeps this rank's slice of the
// gradients alone and reduces a bucket's full gradients within each backward pass; stage 3 keeps this
// rank's slice of the parameters too, and gathers a bucket's before its forward and again before its
// backward. Buckets of layers take turns with two buffers: while one is computed, the next is gathered
// or the last reduced. Source: Rajbhandari et al., ZeRO, SC 2020.

#include <cstddef>
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
  std::size_t bucket_of_layer(int layer) const;
  /// Whether a layer is its bucket's first, or last, within the layers from `begin` or up to `end`.
  bool begins_bucket(int layer, int begin) const;
  bool ends_bucket(int layer, int end) const;
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
  /// Gradients of normalisation weights, of which each rank has summed its own rows.
  void reduce_normalizations(BlockBuilder&, std::size_t bucket) const;

 private:
  BufferId gathered_into(std::size_t bucket, bool backward) const;

  const StageShape& shape_;
  const StageBuffers& buffers_;
};

}  // namespace orrery::core
