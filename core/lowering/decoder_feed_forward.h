#pragma once
// The feed-forward half of a layer.

#include "core/lowering/decoder_block.h"

namespace orrery::core {

void forward_feed_forward(DecoderBlock&, int layer);
/// Of it, as far as backward needs it, and the last product: this rank's rows of the output.
void activate_feed_forward(DecoderBlock&, int layer);
View project_feed_forward(DecoderBlock&, int layer);
/// Its weight gradients are left out where they have a pass of their own.
void backward_feed_forward(DecoderBlock&, int layer);
/// @param dy, input  All rows of the output's gradient, and of the input.
void down_weight_grad(DecoderBlock&, int layer, BufferId dy);
void up_weight_grad(DecoderBlock&, int layer, BufferId input);

}  // namespace orrery::core
