#pragma once
// Attention between the ranks that share a sequence.
//
// All-to-all:
//
//   this rank's rows, all heads ─ deal heads ─ all-to-all ─ join sequences ─ all rows, its heads
//
// and back by the same steps in reverse.
//
// Ring of c ranks: at step s a rank attends to the keys and values of the rank s places before it,
// while it sends them on and receives the next; c − 1 sends forward. Backward they go round again, and
// their gradients follow them until, after c sends, they are home.

#include <string>

#include "core/lowering/decoder_block.h"

namespace orrery::core {

/// From this rank's rows of all heads to all rows of its heads, and back.
void to_heads(DecoderBlock&, const std::string& label, BufferId rows, BufferId heads,
              bool keys_and_values);
void to_rows(DecoderBlock&, const std::string& label, BufferId heads, BufferId rows,
             bool keys_and_values);

/// The inside of a layer's attention, in a ring.
void forward_ring(DecoderBlock&, int layer);
void backward_ring(DecoderBlock&, int layer);

}  // namespace orrery::core
