#pragma once
// The experts of a decoder's layer, in place of its feed-forward network.
//
//   x1 ─ normalize ─ router ─ route ─ dispatch ─ [exchange] ─ up ─ activate ─ down ─ [exchange] ─ combine
//
// Each rank routes its own rows to the slots of all experts. The ranks that hold different experts
// exchange slots (all-to-all); where a tensor group's ranks hold parts of each expert and have rows of
// their own, each gathers what the others have received, and what the experts make of it is summed and
// scattered to them again. Without sequence parallelism a tensor group's ranks route the same rows, and
// sums of parts are taken after combining, as for a feed-forward network.
//
// Slots are as many as DensePlan::expert_capacity says, filled or not: all sizes are known beforehand.
// Source: Lepikhin et al., GShard, arXiv 2006.16668; with tensor parallelism: Singh et al., DeepSpeed-TED,
// ICS 2023.

#include "core/lowering/decoder_block.h"

namespace orrery::core {

/// Up to what the experts return to the rows' rank: what backward needs.
void run_experts(DecoderBlock&, int layer);
void forward_experts(DecoderBlock&, int layer);
void backward_experts(DecoderBlock&, int layer);
/// Of experts and router, in a pass of their own.
void expert_weight_grads(DecoderBlock&, int layer);

}  // namespace orrery::core
