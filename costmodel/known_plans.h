#pragma once
// Kinds of plans that people would try first; a search says how the best of each compares.

#include <array>
#include <bitset>
#include <cstddef>
#include <string_view>

#include "core/plan.h"

namespace orrery::costmodel {

inline constexpr std::size_t kKnownPlans = 8;

/// By kind: "data parallel only", ...
const std::array<std::string_view, kKnownPlans>& known_plan_names();

/// The kinds that a plan is of.
using KnownPlans = std::bitset<kKnownPlans>;
KnownPlans known_plans(const core::DensePlan&, int devices_per_node);

}  // namespace orrery::costmodel
