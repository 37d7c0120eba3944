#pragma once
// What a search of plans found, as text and as JSON.

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/cluster.h"
#include "core/config/constants.h"
#include "core/job.h"
#include "core/model.h"
#include "costmodel/pareto.h"
#include "costmodel/search.h"

namespace orrery::app {

/// What the plans are for.
struct PlanQuestion {
  core::Model model;
  core::Cluster cluster;
  core::Job job;
  int whole_cluster_devices = 0;  ///< `cluster` may be a part of the one asked about.
};

/// The first `shown` plans: their times and shares, the product they come from, why the best beats
/// the next, and which others the model cannot tell from it.
std::string plans_text(const PlanQuestion&, const costmodel::SearchResult&, std::size_t shown);

/// The best plan term by term, the well-known kinds of plan and why each lost.
std::string explanation_text(const PlanQuestion&, const costmodel::SearchResult&);

/// Every constant that the cluster's files state, with its source.
std::string constants_text(const std::vector<core::SourcedConstant>&);

nlohmann::json plans_json(const PlanQuestion&, const costmodel::SearchResult&, std::size_t shown);

/// The plans of a Pareto front over time, devices and money.
std::string front_text(const PlanQuestion&, const std::vector<costmodel::PartPlan>&);
nlohmann::json front_json(const PlanQuestion&, const std::vector<costmodel::PartPlan>&);

}  // namespace orrery::app
