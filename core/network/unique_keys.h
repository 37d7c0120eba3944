#pragma once
// How many different rows a batch of lookups touches when the ids are skewed.

#include <cstdint>

#include "core/model.h"

namespace orrery::core {

/// Distinct rows expected among `lookups` independent draws from `rows` rows whose probabilities
/// follow p_i ∝ i^−s:  U = Σ_i 1 − (1 − p_i)^lookups.
/// The sum over ranks is taken one by one up to rank 1,024 and in bins of ratio 1.01 beyond, with
/// the bin's mean probability: within 1e-4 of the full sum, in about 2,500 terms for 10^9 rows.
///
/// @param zipf_exponent  s ≥ 0; 0 is uniform.
double expected_unique_keys(std::int64_t rows, double zipf_exponent, double lookups);

/// Over all tables of a model, for a batch of that many samples. The fields that look up in a table
/// have equal ranges of its rows each (core/lowering/lowering_sparse.h, embedding_of).
double expected_unique_keys(const ClickThrough&, double samples);

}  // namespace orrery::core
