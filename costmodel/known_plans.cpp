#include "costmodel/known_plans.h"

#include <iterator>

namespace orrery::costmodel {
namespace {

struct KnownPlan {
  std::string_view name;
  bool (*is)(const core::DensePlan&, int devices_per_node);
};

bool model_parallel(const core::DensePlan& p) {
  return p.tensor > 1 || p.pipeline > 1 || p.context > 1;
}

constexpr KnownPlan kAll[] = {
    {"data parallel only",
     [](const core::DensePlan& p, int) { return !model_parallel(p) && p.sharding_stage == 0; }},
    {"data parallel with sharded optimizer (ZeRO 1)",
     [](const core::DensePlan& p, int) {
       return !model_parallel(p) && p.data == 1 && p.sharding_stage == 1;
     }},
    {"fully sharded data parallel (ZeRO 3)",
     [](const core::DensePlan& p, int) {
       return !model_parallel(p) && p.data == 1 && p.sharding_stage == 3;
     }},
    {"pipeline only, no tensor parallelism",
     [](const core::DensePlan& p, int) { return p.tensor == 1 && p.pipeline > 1; }},
    {"tensor and data parallel, no pipeline",
     [](const core::DensePlan& p, int) { return p.tensor > 1 && p.pipeline == 1; }},
    {"tensor over each node, pipeline and data, nothing sharded (Megatron-LM, SC 2021)",
     [](const core::DensePlan& p, int node) {
       return p.tensor == node && p.pipeline > 1 && p.context == 1 && p.sharding_stage == 0;
     }},
    {"tensor, pipeline and data parallel, nothing sharded",
     [](const core::DensePlan& p, int) {
       return p.tensor > 1 && p.pipeline > 1 && p.sharding_stage == 0;
     }},
    {"tensor, pipeline, data parallel and sharded",
     [](const core::DensePlan& p, int) {
       return p.tensor > 1 && p.pipeline > 1 && p.sharding_stage > 0;
     }},
};
static_assert(std::size(kAll) == kKnownPlans);

}  // namespace

const std::array<std::string_view, kKnownPlans>& known_plan_names() {
  static const auto names = [] {
    std::array<std::string_view, kKnownPlans> all;
    for (std::size_t k = 0; k < kKnownPlans; ++k) all[k] = kAll[k].name;
    return all;
  }();
  return names;
}

KnownPlans known_plans(const core::DensePlan& plan, int devices_per_node) {
  KnownPlans kinds;
  for (std::size_t k = 0; k < kKnownPlans; ++k) kinds[k] = kAll[k].is(plan, devices_per_node);
  return kinds;
}

}  // namespace orrery::costmodel
