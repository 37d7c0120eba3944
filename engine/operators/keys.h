#pragma once
// From looked-up ids to distinct keys and back: what a worker does around its pull and push.

#include <cstdint>

#include "core/operator.h"

namespace orrery::engine {

/// keys: the distinct ids, ascending; inverse[i]: where ids[i] is among them. Returns their number.
std::int32_t unique_keys(const core::UniqueKeys&, const std::int32_t* ids, std::int32_t* keys,
                         std::int32_t* inverse);

/// out[i, :] = rows[inverse_i, :].
void gather_rows(const core::GatherRows&, const float* rows, const std::int32_t* inverse,
                 float* out);

/// grads[u, :] = Σ_{i: inverse_i = u} dout[i, :], in the order of i, for u < count.
void sum_row_grads(const core::SumRowGrads&, const float* dout, const std::int32_t* inverse,
                   std::int32_t count, float* grads);

}  // namespace orrery::engine
