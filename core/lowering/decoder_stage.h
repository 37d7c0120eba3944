#pragma once
// Instructions of one pipeline rank of a decoder (GPT-2, Llama): forward and backward of each of its
// chunks of layers, optimizer step.
//
// One layer, per tensor-parallel rank (t ranks, rows = microbatch · sequence):
//
//   x ─ normalize ─ qkv[·, H/t] ─ (rotate) ─ attention ─ out[H, ·/t] ─ all-reduce ─ + ─ x1
//   x1 ─ normalize ─ up[F/t, ·] ─ activate ─ down[·, F/t] ─ all-reduce ─ + ─ x of the next layer
//
// and backward with the all-reduces at the two column-parallel inputs. The weight gradient of a
// column-parallel product is issued after its input gradient, so that it runs beside the
// all-reduce. Zero-bubble schedules run all weight gradients of a chunk in a pass of their own;
// what they read (inputs and output gradients of each product) lives until then.
// Source: Shoeybi et al., Megatron-LM, arXiv 1909.08053; layer structure: Radford et
// al. 2019 (GPT-2), Touvron et al. 2023 (Llama 2); the split: Qi et al., Zero Bubble Pipeline
// Parallelism, ICLR 2024.
//
// With context parallelism the ranks of a context group hold parts of each sequence (SequencePart).
// By all-to-all, attention sees whole sequences of a part of the heads; by ring, keys and values go
// round the group while each rank's queries attend to those it has (decoder_context.h). Gradients are
// summed over the group as over data ways. Source: Jacobs et al., DeepSpeed Ulysses, arXiv
// 2309.14509; Liu et al., Ring Attention, arXiv 2310.01889.
//
// Recompute: a layer that recomputes in full keeps its input alone, and its forward runs again before
// its backward. Selectively, only the inside of attention is computed again: plain attention's scores
// and softmax; with flash attention (which keeps a log-sum-exp alone) all of it, as frameworks do.
//
// ZeRO stage 2 reduces a bucket's gradients within each backward pass and keeps this rank's slice;
// stage 3 gathers a bucket's parameters before its forward and again before its backward
// (sharded_buckets.h). How sequence parallelism cuts the rows is told in decoder_block.h.

#include <string>

#include "core/job.h"
#include "core/lowering/decoder_block.h"
#include "core/lowering/decoder_buffers.h"
#include "core/lowering/decoder_shape.h"
#include "core/lowering/sharded_buckets.h"
#include "core/plan.h"

namespace orrery::core {

class DecoderStage {
 public:
  /// Adds the stage's buffers and parameters to `role`.
  DecoderStage(const Transformer&, const DensePlan&, const Job&, const StageSlice&,
               const StageSlots&, Role& role);
  DecoderStage(const DecoderStage&) = delete;
  DecoderStage& operator=(const DecoderStage&) = delete;

  Block begin() const;  ///< Clears gradients and sums.
  /// One microbatch through a chunk of the slice. `backward` leaves the weight gradients to
  /// `weight_grad` where splits_backward(plan.schedule).
  Block forward(int chunk) const;
  Block backward(int chunk) const;
  Block weight_grad(int chunk) const;
  Block step() const;  ///< Gradient reduction, clipping, optimizer update.

 private:
  DecoderBlock open(std::string name) const;

  StageShape shape_;
  StageBuffers buffers_;
  ShardedBuckets buckets_;
  const Role& role_;
};

}  // namespace orrery::core
