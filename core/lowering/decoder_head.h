#pragma once
// Embedding and head of a decoder, at the ends of the pipeline.

#include "core/lowering/decoder_block.h"

namespace orrery::core {

void forward_embedding(DecoderBlock&);
void embedding_grad(DecoderBlock&);

/// Final normalisation, logits and loss. Logits become their gradient in place.
void forward_head(DecoderBlock&);
/// Its weight gradient is left out where it has a pass of its own.
void backward_head(DecoderBlock&);
/// @param input  All rows of the normalised output.
void head_weight_grad(DecoderBlock&, BufferId input);

}  // namespace orrery::core
