#pragma once
// Cross-entropy over a vocabulary that may be split over the tensor group's ranks.

#include "core/operator.h"

namespace orrery::engine {

/// statistics[r] = (max, Σ exp(x − max), target's logit or −∞) over this rank's valid columns of
/// logits [rows, vocab_rows]: global column first_row + j < vocab. (−∞, 0, −∞) without any.
void cross_entropy_statistics(const core::CrossEntropyStatistics&, std::int64_t first_row,
                              const float* logits, const std::int32_t* targets, float* statistics);

/// From the statistics of all parts [vocab_ways, rows, 3]: M = max of maxima,
/// lse = M + log Σ_parts e^(max − M)·sum; logits become scale·(e^(x − lse) − onehot), 0 in padding
/// and where the target is negative. Returns scale · Σ_rows (lse − target's logit).
double cross_entropy_grad(const core::CrossEntropyGrad&, std::int64_t first_row,
                          const float* statistics, const std::int32_t* targets, float* logits);

}  // namespace orrery::engine
