#pragma once
// The attention half of a layer.

#include "core/lowering/decoder_block.h"

namespace orrery::core {

void forward_attention(DecoderBlock&, int layer);
/// Its weight gradients are left out where they have a pass of their own.
void backward_attention(DecoderBlock&, int layer);
/// @param dy, input  All rows of the output's gradient, and of the input.
void out_weight_grad(DecoderBlock&, int layer, BufferId dy);
void qkv_weight_grad(DecoderBlock&, int layer, BufferId input);

}  // namespace orrery::core
