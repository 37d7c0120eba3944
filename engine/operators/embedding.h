#pragma once
// Token, position and token-type embedding.

#include "core/operator.h"

namespace orrery::engine {

/// x[t, :] = wte[token_t − first_row, :] (0 where this rank holds another row) + wpe[position_t, :]
/// + wtt[0, :]; wpe and wtt may be null. x: [tokens, hidden]. position_t: of the t-th token that the
/// rank at `context_position` holds (core::sequence_position).
void embed(const core::Embed&, std::int64_t first_row, const std::int32_t* tokens, const float* wte,
           const float* wpe, const float* wtt, float* x, int context_position);

/// dwte[token_t − first_row, :] += dx[t, :] for this rank's rows, dwpe[position_t] += dx[t],
/// dwtt[0] += dx[t], in the order of t; dwpe and dwtt may be null.
void embed_grad(const core::EmbedGrad&, std::int64_t first_row, const std::int32_t* tokens,
                const float* dx, float* dwte, float* dwpe, float* dwtt, int context_position);

}  // namespace orrery::engine
