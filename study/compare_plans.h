#pragma once
// Plans that somebody has in mind, beside the best one of a search: what each costs and moves.

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/cluster.h"
#include "core/job.h"
#include "core/model.h"
#include "core/network/traffic.h"
#include "core/plan.h"
#include "costmodel/estimate.h"

namespace orrery::study {

struct ComparedPlan {
  std::string name;  ///< Of its file.
  core::Plan plan;
  costmodel::Estimate estimate;             ///< Also where it does not fit.
  std::optional<std::string> does_not_fit;  ///< Why.
  std::optional<core::Seconds> simulated;   ///< Step time.
  core::Traffic traffic;                    ///< Of a device on average.
  std::optional<std::size_t>
      faster;  ///< Plans of the search's space that are estimated to be faster.
};

/// The plan of a file, without the model, cluster and job that it names: `model` on all of `cluster`
/// is meant.
/// @throws ConfigError naming the file, where the plan cannot be lowered for these.
core::Plan read_plan_for(const std::filesystem::path& file, const core::Model& model,
                         const core::Cluster& cluster, const core::Job& job);

/// The plan's estimate, nothing simulated and nothing counted yet. Dense plans.
ComparedPlan estimated(std::string name, const core::Plan&, const core::Model&,
                       const core::Cluster&, const core::Job&);

/// Lowers the plan, and adds what it moves and its simulated step.
void simulate_and_count(ComparedPlan&, const core::Model&, const core::Cluster&, const core::Job&);

}  // namespace orrery::study
