#pragma once
// Which plan: searched by the cost model, the best few timed by the simulator, ordered anew.

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "core/cluster.h"
#include "core/job.h"
#include "core/model.h"
#include "core/plan.h"
#include "costmodel/pareto.h"
#include "costmodel/search.h"

namespace orrery::study {

struct PlanStudyOptions {
  std::size_t keep = 5;       ///< Plans in the answer.
  std::size_t simulated = 3;  ///< The best so many by estimate are simulated.
  costmodel::PlanConditions conditions;
  std::optional<core::Bytes> memory;  ///< Of a device that a plan may need, if less than it has.
  std::vector<core::Seconds> place;   ///< costmodel::SearchOptions::place.
  std::function<void(std::size_t)> progress;  ///< Called before each simulation with its number.
};

costmodel::SearchResult study_plans(const core::Model&, const core::Cluster&, const core::Job&,
                                    const PlanStudyOptions&);

/// The best plans of parts of the cluster by estimate (costmodel/pareto.h).
std::vector<costmodel::PartPlan> best_of_parts(const core::Model&, const core::Cluster&,
                                               const core::Job&, const PlanStudyOptions&,
                                               int most_devices);

/// Simulated step time where there is one, the estimate otherwise.
core::Seconds step_of(const costmodel::RankedPlan&);

}  // namespace orrery::study
