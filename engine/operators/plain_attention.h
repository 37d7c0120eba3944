#pragma once
// Attention whose scores lie in memory, operator by operator. Row layout of qkv and the heads that
// share keys and values: engine/operators/attention.h.

#include "core/operator.h"

namespace orrery::engine {

/// scores[s, h, t, u] = q_t·k_u/√d.
void attention_scores(const core::AttentionScores&, const float* qkv, float* scores);

/// p[.., t, :] = softmax over the keys that t sees, 0 elsewhere; in place.
void softmax(const core::Softmax&, float* scores);

/// out[t, h, :] = Σ_u p_tu·v_u.
void attention_context(const core::AttentionContext&, const float* p, const float* qkv, float* out);

/// dp_tu = dout_t·v_u;  dv_u = Σ_t p_tu·dout_t, over all query heads that share v.
void attention_context_grad(const core::AttentionContextGrad&, const float* dout, const float* p,
                            const float* qkv, float* dp, float* dqkv);

/// ds_tu = p_tu·(dp_tu − Σ_w p_tw·dp_tw), in place of dp.
void softmax_grad(const core::SoftmaxGrad&, const float* p, float* dp);

/// dq_t = Σ_u ds_tu·k_u/√d;  dk_u = Σ_t ds_tu·q_t/√d, over all query heads that share k.
void attention_scores_grad(const core::AttentionScoresGrad&, const float* ds, const float* qkv,
                           float* dqkv);

}  // namespace orrery::engine
