#pragma once
// What a search of plans found, as text and as JSON.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/cluster.h"
#include "core/job.h"
#include "core/model.h"
#include "costmodel/search.h"

namespace orrery::app {

/// What the plans are for.
struct PlanQuestion {
  core::Model model;
  core::Cluster cluster;
  core::Job job;
};

/// The plans, fastest first: their times and shares, the product they come from, and why the best
/// beats the next.
std::string plans_text(const PlanQuestion&, const costmodel::SearchResult&);

/// The best plan term by term, the well-known kinds of plan and why each lost.
std::string explanation_text(const PlanQuestion&, const costmodel::SearchResult&);

nlohmann::json plans_json(const PlanQuestion&, const costmodel::SearchResult&);

}  // namespace orrery::app
