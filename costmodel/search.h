#pragma once
// Which plan is fastest: the plan space (costmodel/plan_space.h), bounded and timed on all cores. The
// answer is exact, and the same for any number of threads.
//
//   1. Every plan is looked at: what does not fit in memory falls out, and of each corner of the
//      space the least lower bound of the others is kept.
//   2. Corners are gone through in the order of that bound, and plans are timed whose own bound is
//      within the `keep` least times so far, or within the least of their kind; until no corner's is.
//
// A bound is only ever compared with times that some plan has, so nothing is left out that belongs in
// the answer.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/estimate.h"
#include "costmodel/plan_space.h"

namespace orrery::costmodel {

/// Relative error of an estimated step that is to be expected: plans closer than that are not to be
/// told apart.
/// @source bench/predicted-measured.sh: mean 8%, worst 14% on two CPU cores (README). `orrery
/// validate` prints the errors on published steps.
inline constexpr double kModelError = 0.1;

struct SearchOptions {
  std::size_t keep = 1000;         ///< Plans in the answer.
  int threads = 0;                 ///< 0: as many as the machine has.
  PlanConditions conditions = {};  ///< Only such plans (transformers).
  std::optional<core::Bytes> memory =
      {};                   ///< Of a device that a plan may need, if less than it has.
  bool exhaustive = false;  ///< Time all plans that fit, whatever their bounds: for comparisons.
  /// Time of a step by other means (the simulator); the `refined` best by estimate are timed so and
  /// ordered anew among themselves.
  std::function<core::Seconds(const core::Plan&)> refine;
  std::size_t refined = 0;
  /// For each of these times the answer says how many plans are estimated to be faster.
  std::vector<core::Seconds> place = {};
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
  std::size_t candidates = 0;       ///< Plans that were looked at.
  std::size_t do_not_fit = 0;       ///< Of them, too large for the devices.
  std::size_t timed = 0;            ///< Of them, timed; depends on how fast which thread was.
  std::vector<std::size_t> faster;  ///< Plans that fit and are faster, by SearchOptions::place.
  std::string nothing_fits;         ///< Where `ranked` is empty: what the closest plan lacks.
};

/// @throws ConfigError for a model or job that no plan covers (core::why_not_covered).
SearchResult search(const core::Model&, const core::Cluster&, const core::Job&,
                    const SearchOptions&);

/// Why `other` takes longer than `best`: the terms that differ most, in words.
std::string why_slower(const Estimate& best, const Estimate& other);

}  // namespace orrery::costmodel
