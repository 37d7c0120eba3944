#pragma once
// What lies around the all-to-all of context parallelism: core::DealHeads, core::JoinSequences.

#include "core/operator.h"

namespace orrery::engine {

/// Rows [heads·d ; kv·d ; kv·d] → [parts, rows, (heads·d ; kv·d ; kv·d)/parts], or back.
void deal_heads(const core::DealHeads&, const float* in, float* out);

/// [parts, sequences, sequence/parts, width] → [sequences, sequence, width], or back.
void join_sequences(const core::JoinSequences&, const float* in, float* out);

}  // namespace orrery::engine
