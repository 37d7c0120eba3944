#pragma once
// Names of tests that run over several plans.

#include <gtest/gtest.h>

#include <string>

#include "core/plan.h"

namespace orrery::core {

/// "Workers4Servers2ColocatedSlices2".
inline std::string sparse_plan_name(const ::testing::TestParamInfo<SparsePlan>& info) {
  const SparsePlan& plan = info.param;
  return "Workers" + std::to_string(plan.workers) + "Servers" + std::to_string(plan.servers) +
         (plan.colocated ? "Colocated" : "") + "Slices" + std::to_string(plan.slices);
}

}  // namespace orrery::core
