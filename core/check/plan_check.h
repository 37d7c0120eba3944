#pragma once
// Which plans can be lowered: every rule between a plan, its model, its job and its devices, each
// told with the key, the rule and a fix.

#include <optional>
#include <string>

#include "core/job.h"
#include "core/model.h"
#include "core/plan.h"

namespace orrery::core {

/// Why no plan at all can be lowered for that model and job; nullopt when some can.
std::optional<std::string> why_not_covered(const Model&, const Job&);

/// Why this plan cannot be lowered for that model, job and number of devices; nullopt when it can.
/// Names the plan's key, the rule and a fix.
std::optional<std::string> why_invalid(const Plan&, const Model&, const Job&, int devices);

}  // namespace orrery::core
