#pragma once
// Which plan is fastest: the plan space that lowering covers, enumerated, bounded and estimated on
// all cores. The answer is the same for any number of threads.
//
//   tensor      divides heads, key-value heads, feed-forward width and devices
//   pipeline    divides the rest, at most one stage per layer; layers even or levelled
//   sharding    1, or each divisor of the data ways (ZeRO stage 1)
//   microbatch  divides the sequences of a data way
//   schedule    1F1B; GPipe too where there is a pipeline
//   recompute   none, full
//
// First what cannot be divided falls out, then what does not fit in memory, then what cannot be
// among the `keep` fastest by a lower bound of its time; the rest is estimated.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/estimate.h"

namespace orrery::costmodel {

struct SearchOptions {
  std::size_t keep = 1000;  ///< Plans in the answer.
  int threads = 0;          ///< 0: as many as the machine has.
  /// Time of a step by other means (the simulator); the `refined` best by estimate are timed so and
  /// ordered anew among themselves.
  std::function<core::Seconds(const core::Plan&)> refine;
  std::size_t refined = 0;
};

struct RankedPlan {
  core::Plan plan;  ///< Without paths and name.
  Estimate estimate;
  std::optional<core::Seconds> refined;
};

/// The best of a well-known kind of plan, and why it is not the answer.
struct Alternative {
  std::string name;     ///< "data parallel only".
  std::string verdict;  ///< "does not fit: ...", "1.42 times as long: ...", "is the best plan".
  std::optional<RankedPlan> best;  ///< Absent where none fits.
};

struct SearchResult {
  std::vector<RankedPlan> ranked;  ///< Fastest first; of equals the first enumerated.
  std::vector<Alternative> alternatives;
  std::size_t candidates = 0;  ///< Plans that can be lowered.
  std::size_t do_not_fit = 0;  ///< Of them, too large for the devices.
  std::string nothing_fits;    ///< Where `ranked` is empty: what the closest plan lacks.
};

/// @throws ConfigError for a model or job that no plan covers (core::why_not_covered).
SearchResult search(const core::Model&, const core::Cluster&, const core::Job&,
                    const SearchOptions&);

/// All valid dense plans, in the order of the search.
std::vector<core::Plan> dense_plans(const core::Model&, const core::Cluster&, const core::Job&);

/// All valid plans with a parameter server: how many of the cluster's ranks serve, whether servers
/// also work, one to four slices.
std::vector<core::Plan> sparse_plans(const core::Model&, const core::Cluster&, const core::Job&);

/// Why `other` takes longer than `best`: the terms that differ most, in words.
std::string why_slower(const Estimate& best, const Estimate& other);

}  // namespace orrery::costmodel
