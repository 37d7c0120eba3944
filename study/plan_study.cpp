#include "study/plan_study.h"

#include "core/lowering/lowering.h"
#include "costmodel/predict_durations.h"
#include "sim/simulate.h"

namespace orrery::study {

core::Seconds simulated_step(const core::Plan& plan, const core::Model& model,
                             const core::Cluster& cluster, const core::Job& job) {
  const core::Program program = core::lower(plan, model, cluster, job);
  sim::SimulateOptions options;
  options.folded = true;
  options.memory_counters = false;
  return sim::simulate_step(program, costmodel::predict_durations(program, cluster, job), cluster,
                            options);
}

costmodel::SearchResult study_plans(const core::Model& model, const core::Cluster& cluster,
                                    const core::Job& job, const PlanStudyOptions& options) {
  std::size_t number = 0;
  costmodel::SearchOptions search;
  search.keep = options.keep;
  search.conditions = options.conditions;
  search.memory = options.memory;
  search.refined = options.simulated;
  search.refine = [&](const core::Plan& plan) {
    if (options.progress) options.progress(++number);
    return simulated_step(plan, model, cluster, job);
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
