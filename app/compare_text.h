#pragma once
// Plans side by side, as text and as JSON.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "study/compare_plans.h"

namespace orrery::app {

/// A column for each plan, and why each is slower than the first.
std::string side_by_side_text(const std::vector<study::ComparedPlan>&);

nlohmann::json side_by_side_json(const std::vector<study::ComparedPlan>&);

}  // namespace orrery::app
