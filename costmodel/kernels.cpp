#include "costmodel/kernels.h"

#include <variant>

namespace orrery::costmodel {
namespace {

using core::Bytes;

constexpr double kFloat = 4.0;  // Bytes of one float32.

template <class... Integer>
double product(Integer... factors) {
  return (static_cast<double>(factors) * ...);
}

struct Counter {
  double e;  // Bytes of one floating-point element.
  bool fp8;  // Products read bytes that are cast for them.

  // A gradient is written, read again and added to the one accumulated in float32, where Work
  // counts that it is read and written once.
  double accumulated(double elements) const { return elements * 2.0 * kFloat; }

  // Masking of tokens that live on other ranks: two comparisons, or, subtract, fill, fill of the
  // output. Positions: a lookup and an addition.
  Kernels operator()(const core::Embed& o) const {
    const double x = product(o.tokens, o.hidden) * e;
    const bool parted = o.vocab_ways > 1;
    return {1 + (parted ? 6 : 0) + (o.positions ? 2 : 0) + (o.token_types ? 2 : 0),
            Bytes((parted ? 2.0 * x : 0.0) + (o.positions ? 3.0 * x : 0.0))};
  }
  // Read, written as bytes, and once more transposed for the weight's gradient.
  Kernels cast(double elements) const {
    return fp8 ? Kernels{2, Bytes(elements * (e + 2.0))} : Kernels{};
  }
  Kernels operator()(const core::Linear& o) const { return cast(product(o.rows, o.in)); }
  Kernels operator()(const core::LinearInputGrad& o) const { return cast(product(o.rows, o.out)); }
  // The gradient of the whole table is made (zeroed, sorted scatter) and then accumulated.
  Kernels operator()(const core::EmbedGrad& o) const {
    const double table = product(o.vocab_rows, o.hidden);
    return {7 + (o.positions ? 4 : 0), Bytes(table * 2.0 * e + accumulated(table))};
  }
  // The weight's gradient is a product of its own, then added to the accumulated one; the bias's is
  // a reduction over the rows, then added.
  Kernels operator()(const core::LinearWeightGrad& o) const {
    const double bias = o.bias ? product(o.rows, o.out) * e : 0.0;
    return {2 + (o.bias ? 2 : 0), Bytes(accumulated(product(o.out, o.in)) + bias)};
  }
  // Input gradient, partial and final sums of the parameters' gradients (which read dy and x
  // again), their accumulation; the sum with the residual's gradient is a kernel of its own.
  Kernels operator()(const core::NormalizeGrad& o) const {
    const double x = product(o.rows, o.width) * e;
    const int parameters = o.kind == core::Normalization::LayerNorm ? 2 : 1;
    return {3 + parameters + (o.accumulate ? 1 : 0),
            Bytes(2.0 * x + (o.accumulate ? 2.0 * x : 0.0))};
  }
  // Queries and keys each: halves swapped, two products, a sum, put together again.
  Kernels operator()(const core::Rotate&) const { return {8, Bytes(0)}; }
  // Σ do·o, the pass itself, the conversion of dq from float32.
  Kernels operator()(const core::AttentionGrad& o) const {
    return {3, Bytes(queries(o) / e * (kFloat + e))};
  }
  /// Scores that dropout reads and writes, and a byte of its mask.
  template <class Op>
  double dropped(const Op& o) const {
    return scores(o) * (2.0 * e + 1.0);
  }
  template <class Op>
  double queries(const Op& o) const {
    return product(o.sequences, o.sequence, o.heads, o.head_dim) * e;
  }
  /// Megatron's fused kernel takes four matrices of scores in half precision at once, so their number
  /// must be a multiple; others go through PyTorch's operators in float32.
  template <class Op>
  bool fused(const Op& o) const {
    constexpr std::int64_t kAtOnce = 4;
    return e > 2.0 || o.sequences * o.heads % kAtOnce == 0;
  }
  template <class Op>
  double scores(const Op& o) const {
    return product(o.sequences, o.sequence, o.heads) * product(o.sequence);
  }
  // Not fused: conversion, scale, mask, softmax, conversion back, each read and written; what the
  // fused one reads and writes is Work's.
  Kernels operator()(const core::Softmax& o) const {
    if (fused(o)) return {2, Bytes(dropped(o))};
    return {6, Bytes(dropped(o) +
                     scores(o) * ((e + kFloat) + 3.0 * 2.0 * kFloat + (kFloat + e) - 2.0 * e))};
  }
  // Likewise backward: the softmax's own reads its result and the gradient.
  Kernels operator()(const core::SoftmaxGrad& o) const {
    if (fused(o)) return {2, Bytes(dropped(o))};
    return {6, Bytes(dropped(o) + scores(o) * ((e + kFloat) + 3.0 * kFloat + 2.0 * 2.0 * kFloat +
                                               (kFloat + e) - 3.0 * e))};
  }
  // Heads are put beside each other again.
  Kernels operator()(const core::AttentionContext& o) const { return {2, Bytes(2.0 * queries(o))}; }
  Kernels operator()(const core::AttentionContextGrad& o) const {
    return {3, Bytes(2.0 * queries(o))};
  }
  // Two products; the gradients of queries, keys and values are put beside each other.
  Kernels operator()(const core::AttentionScoresGrad& o) const {
    const double heads = 1.0 + 2.0 * o.kv_heads / o.heads;
    return {3, Bytes(2.0 * queries(o) * heads)};
  }
  Kernels operator()(const core::RingAttentionGrad& o) const {
    return {3, Bytes(queries(o) / e * (kFloat + e))};
  }
  Kernels operator()(const core::BiasGrad&) const { return {2, Bytes(0)}; }
  // In float32: conversion, maximum, subtraction, exponential, sum, and gathering the targets.
  Kernels operator()(const core::CrossEntropyStatistics& o) const {
    return {12, Bytes(product(o.rows, o.vocab_rows) * 7.0 * kFloat)};
  }
  // Division by the sum, scaling, conversion back.
  Kernels operator()(const core::CrossEntropyGrad& o) const {
    return {8, Bytes(product(o.rows, o.vocab_rows) * 5.0 * kFloat)};
  }
  template <class Other>
  Kernels operator()(const Other&) const {
    return {};
  }
};

}  // namespace

Kernels kernels_of(const core::Operator& op, core::DType precision) {
  const double element = core::dtype_bytes(precision);
  return std::visit(Counter{element, precision == core::DType::Float8}, op);
}

}  // namespace orrery::costmodel
