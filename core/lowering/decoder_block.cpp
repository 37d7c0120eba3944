#include "core/lowering/decoder_block.h"

#include <utility>

namespace orrery::core {

DecoderBlock::DecoderBlock(const Role& role, std::string name, const StageShape& shape,
                           const StageBuffers& buffers, const ShardedBuckets& buckets)
    : BlockBuilder(role, std::move(name), dtype_bytes(shape.job.precision)),
      shape_(shape),
      buffers_(buffers),
      buckets_(buckets) {}

void DecoderBlock::normalize(const std::string& label, BufferId x, BufferId y, BufferId statistics,
                             ParameterRange weight, std::optional<ParameterRange> bias) {
  std::vector<View> reads = {all(x), value(weight)};
  if (bias) reads.push_back(value(*bias));
  compute(label,
          Normalize{shape_.own_rows, shape_.model.hidden, shape_.model.normalization,
                    shape_.model.norm_epsilon},
          reads, {all(y), all(statistics)});
}

void DecoderBlock::normalize_grad(const std::string& label, const NormGradBuffers& b,
                                  ParameterRange weight, std::optional<ParameterRange> bias) {
  const bool in_place = b.residual && *b.residual == b.dx;
  std::vector<View> writes = {all(b.dx), gradient(weight)};
  if (bias) writes.push_back(gradient(*bias));
  compute(label,
          NormalizeGrad{shape_.own_rows, shape_.model.hidden, shape_.model.normalization, in_place},
          {b.dy, all(b.x), value(weight), all(b.statistics)}, writes);
  if (!b.residual || in_place) return;
  compute(label + ".residual", Add{shape_.own_rows, shape_.model.hidden, false},
          {all(b.dx), all(*b.residual)}, {all(b.dx)});
}

void DecoderBlock::linear(const std::string& label, BufferId x, BufferId y, std::int64_t out,
                          std::int64_t in, ParameterRange weight,
                          std::optional<ParameterRange> bias) {
  std::vector<View> reads = {all(x), value(weight)};
  if (bias) reads.push_back(value(*bias));
  compute(label, Linear{shape_.rows, out, in, bias.has_value()}, reads, {all(y)});
}

void DecoderBlock::linear_input_grad(const std::string& label, BufferId dy, BufferId dx,
                                     std::int64_t out, std::int64_t in, ParameterRange weight) {
  compute(label, LinearInputGrad{shape_.rows, out, in, false}, {all(dy), value(weight)}, {all(dx)});
}

void DecoderBlock::linear_weight_grad(const std::string& label, BufferId dy, BufferId x,
                                      std::int64_t out, std::int64_t in, ParameterRange weight,
                                      std::optional<ParameterRange> bias) {
  std::vector<View> writes = {gradient(weight)};
  if (bias) writes.push_back(gradient(*bias));
  set_pass(Pass::WeightGrad);
  compute(label, LinearWeightGrad{shape_.rows, out, in, bias.has_value()}, {all(dy), all(x)},
          writes);
  set_pass(Pass::Backward);
}

View DecoderBlock::reduce_tensor(const std::string& label, BufferId id) {
  View sum = all(id);
  if (!shape_.slots.tensor) return sum;
  if (!shape_.plan.sequence_parallel) {
    collective(label, CollectiveKind::AllReduce, *shape_.slots.tensor, sum, Stream::Tensor);
    return sum;
  }
  collective(label, CollectiveKind::ReduceScatter, *shape_.slots.tensor, sum, Stream::Tensor);
  sum.slice = shape_.slots.tensor;
  return sum;
}

BufferId DecoderBlock::all_rows(const std::string& label, BufferId rows,
                                std::optional<BufferId> into) {
  if (!into) return rows;
  gather(label, *shape_.slots.tensor, all(rows), all(*into), Stream::Tensor);
  return *into;
}

BufferId DecoderBlock::for_weight_grad(const std::string& label, BufferId input) {
  return shape_.splits ? input : all_rows(label, input, buffers_.gathered_again);
}

}  // namespace orrery::core
