#pragma once
// What the ranks of separate processes have seen and learnt, brought together at rank 0.

#include <chrono>
#include <optional>
#include <vector>

#include "engine/rank_run.h"
#include "engine/weights.h"

namespace orrery::engine {

/// A time that all ranks agree on: rank 0's now, on this rank's clock. On one host the clocks are
/// one; the difference of another host's is taken from the fastest of several round trips, so it is
/// known to half that time.
std::chrono::steady_clock::time_point common_epoch(Communicator&);

/// All ranks' results at rank 0, by rank; empty elsewhere.
std::vector<RankResult> gather_results(Communicator&, RankResult own);

/// The whole weights at rank 0.
std::optional<WeightAssembly> gather_weights(const core::Program&, Communicator&, const RankRun&);

}  // namespace orrery::engine
