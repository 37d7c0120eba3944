#pragma once
// One step of ring attention: a rank's queries against the keys and values that have come round to
// it. Blocks of rows as in engine/operators/attention.h.
//
// A rank's tokens are two pieces of each sequence in ascending order (core::SequencePart, zigzag), so
// under the causal mask the keys that a query sees are the first ones of each rank's.

#include "core/operator.h"
#include "engine/workspace.h"

namespace orrery::engine {

/// Joins the step's attention to what the steps before gave: with the step's own out' and lse',
///   lse ← log(e^lse + e^lse'),  out ← out·e^(lse_before − lse) + out'·e^(lse' − lse).
/// qkv: rows [heads·d ; kv·d ; kv·d], of which the queries are read; kv: rows [kv·d ; kv·d].
void ring_attention(const core::RingAttention&, int context_position, const float* qkv,
                    const float* kv, float* out, float* log_sum_exp, Workspace&);

/// The gradients of the step's pairs, with out and log_sum_exp of all steps: adds to the queries of
/// dqkv and to dkv (step 0 overwrites both).
void ring_attention_grad(const core::RingAttentionGrad&, int context_position, const float* dout,
                         const float* qkv, const float* kv, const float* out,
                         const float* log_sum_exp, float* dqkv, float* dkv, Workspace&);

/// y[r, to + i] = x[r, from + i], i < count.
void copy_columns(const core::CopyColumns&, const float* x, float* y);

}  // namespace orrery::engine
