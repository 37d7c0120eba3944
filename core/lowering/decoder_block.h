#pragma once
// Writes a block of a decoder's stage: the instructions that all its parts are made of.
//
// With sequence parallelism each rank of a tensor group keeps rows/t of the residual stream and of what
// is normalised. Each all-reduce becomes a reduce-scatter over rows, and an all-gather where all rows
// are read:
//
//   x ─ normalize ─ all-gather ─ qkv ─ ... ─ out ─ reduce-scatter ─ + ─ x1
//
// Backward gathers the gradients of row-parallel outputs, and once more the column-parallel inputs
// that weight gradients read. The weights of normalisations see only a rank's rows, so their
// gradients are summed over the tensor group at the end of the step.
// Source: Korthikanti et al., arXiv 2205.05198, section 4.2.

#include <optional>
#include <string>

#include "core/lowering/block_builder.h"
#include "core/lowering/decoder_buffers.h"
#include "core/lowering/decoder_shape.h"
#include "core/lowering/sharded_buckets.h"

namespace orrery::core {

/// What a normalisation's gradient is made of: dx = ∂(dy) (+ residual).
struct NormGradBuffers {
  View dy;
  BufferId x, statistics;
  std::optional<BufferId> residual;
  BufferId dx;
};

class DecoderBlock : public BlockBuilder {
 public:
  DecoderBlock(const Role&, std::string name, const StageShape&, const StageBuffers&,
               const ShardedBuckets&);

  const StageShape& shape() const { return shape_; }
  const StageBuffers& buffers() const { return buffers_; }
  const ShardedBuckets& buckets() const { return buckets_; }

  View value(ParameterRange range) const { return buckets_.value(*this, range); }
  View gradient(ParameterRange range) const { return buckets_.gradient(range); }

  void normalize(const std::string& label, BufferId x, BufferId y, BufferId statistics,
                 ParameterRange weight, std::optional<ParameterRange> bias);
  void normalize_grad(const std::string& label, const NormGradBuffers&, ParameterRange weight,
                      std::optional<ParameterRange> bias);
  void linear(const std::string& label, BufferId x, BufferId y, std::int64_t out, std::int64_t in,
              ParameterRange weight, std::optional<ParameterRange> bias);
  void linear_input_grad(const std::string& label, BufferId dy, BufferId dx, std::int64_t out,
                         std::int64_t in, ParameterRange weight);
  void linear_weight_grad(const std::string& label, BufferId dy, BufferId x, std::int64_t out,
                          std::int64_t in, ParameterRange weight,
                          std::optional<ParameterRange> bias);
  /// Sums partial results F[rows, hidden] over the tensor group; this rank's rows of the sum.
  View reduce_tensor(const std::string& label, BufferId);
  /// All rows of what each rank of the tensor group has some of, gathered `into` a buffer; `rows`
  /// itself without sequence parallelism.
  BufferId all_rows(const std::string& label, BufferId rows, std::optional<BufferId> into);
  /// All rows of a column-parallel product's input for its weight gradient; not needed where that
  /// has a pass of its own.
  BufferId for_weight_grad(const std::string& label, BufferId input);

 private:
  const StageShape& shape_;
  const StageBuffers& buffers_;
  const ShardedBuckets& buckets_;
};

}  // namespace orrery::core
