#pragma once
// A Program played on a Cluster: when each instruction starts and ends, with what each link and
// each node's cores can carry. The meaning of a Program is at the top of core/program.h.

#include <cstdint>
#include <functional>
#include <optional>

#include "core/cluster.h"
#include "core/durations.h"
#include "core/network/collective_algorithm.h"
#include "core/network/topology.h"
#include "core/perturbations.h"
#include "core/program.h"
#include "core/trace.h"

namespace orrery::sim {

/// Extra time of each instruction, uniform in [0, most): a compute takes longer, a communication
/// comes later. A function of (seed, rank, step, call, index) alone.
struct RandomDelays {
  std::uint64_t seed = 0;
  core::Seconds most;
};

struct SimulateOptions {
  int steps = 1;
  /// Simulates one rank for all that do the same where program and placement allow it (sim/fold.h);
  /// its communications carry what theirs put on the same links. What perturbations disturb is
  /// simulated by itself; with jitter that is every rank.
  bool folded = false;
  /// Instead of the fastest algorithm, where it supports the collective.
  std::optional<core::CollectiveAlgorithm> algorithm;
  /// Folds by what the links carry even where the network is made of levels alone (sim/symmetry.h).
  bool exact_links = false;
  bool memory_counters = true;  ///< Live memory of each simulated rank over time.
  std::optional<RandomDelays> delays;
  core::Perturbations perturbations = {};
  std::function<void(double)> progress;  ///< Called now and then with the share that is done.
};

/// Compute instructions take their duration, on a GPU longer beside collectives
/// (core/interference.h). A CPU rank is one thread, which its streams share, and on
/// a node with fewer cores than ranks the ranks share the cores (max-min fair). Communications take
/// what core/network/collective_algorithm.h and the links' fair shares (sim/network.h) give.
/// @throws core::SystemError when instructions wait for each other in a circle, naming it.
core::Trace simulate(const core::Program&, const core::Durations&, const core::Cluster&,
                     const SimulateOptions& = {});

/// Duration of the last of `steps` steps alone, without a trace: for searches over many plans.
core::Seconds simulate_step(const core::Program&, const core::Durations&, const core::Cluster&,
                            const SimulateOptions& = {});

}  // namespace orrery::sim
