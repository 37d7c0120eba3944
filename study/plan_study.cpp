#include "study/plan_study.h"

#include "study/simulate_plan.h"

namespace orrery::study {

costmodel::SearchResult study_plans(const core::Model& model, const core::Cluster& cluster,
                                    const core::Job& job, const PlanStudyOptions& options) {
  std::size_t number = 0;
  costmodel::SearchOptions search;
  search.keep = options.keep;
  search.conditions = options.conditions;
  search.memory = options.memory;
  search.refined = options.simulated;
  search.place = options.place;
  search.refine = [&](const core::Plan& plan) {
    if (options.progress) options.progress(++number);
    return simulated_step(lower_plan({model, cluster, job, plan}), cluster, job);
  };
  return costmodel::search(model, cluster, job, search);
}

std::vector<costmodel::PartPlan> best_of_parts(const core::Model& model,
                                               const core::Cluster& cluster, const core::Job& job,
                                               const PlanStudyOptions& options, int most_devices) {
  costmodel::SearchOptions search;
  search.conditions = options.conditions;
  search.memory = options.memory;
  return costmodel::best_of_parts(model, cluster, job, search, most_devices);
}

core::Seconds step_of(const costmodel::RankedPlan& ranked) {
  return ranked.refined.value_or(ranked.estimate.step);
}

}  // namespace orrery::study
