#pragma once
// Attention with grouped queries. Memory beside the operands: a block of query rows times the
// sequence, so it grows linearly with the sequence; scores are computed again in the backward pass.

#include "core/operator.h"
#include "engine/workspace.h"

namespace orrery::engine {

/// out[t, h, :] = Σ_u softmax_u(q_t·k_u/√d) · v_u per head (u ≤ t where causal). Rows of qkv:
/// [heads·d ; kv_heads·d ; kv_heads·d]; query head h uses key-value head h·kv_heads/heads.
/// out: [tokens, heads·d]. log_sum_exp: [sequences, heads, sequence].
void attention(const core::Attention&, const float* qkv, float* out, float* log_sum_exp,
               Workspace&);

/// With P the softmax, D_t = dout_t·out_t:
///   dv_u = Σ_t P_tu·dout_t,  dS_tu = P_tu·(dout_t·v_u − D_t),
///   dq_t = Σ_u dS_tu·k_u/√d,  dk_u = Σ_t dS_tu·q_t/√d.  Writes all of dqkv, laid out as qkv.
void attention_grad(const core::AttentionGrad&, const float* dout, const float* qkv,
                    const float* out, const float* log_sum_exp, float* dqkv, Workspace&);

}  // namespace orrery::engine
