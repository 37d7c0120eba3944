#pragma once
// What each training framework does that a published row does not say.

#include <string>

#include "core/plan.h"

namespace orrery::study {

/// Sets what the framework of that name decides by itself: overlap of the gradients' reduction,
/// buckets. Frameworks that are not known keep the plan's defaults.
void follow_framework(core::DensePlan&, const std::string& framework);

}  // namespace orrery::study
