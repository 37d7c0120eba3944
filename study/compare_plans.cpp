#include "study/compare_plans.h"

#include "core/check/plan_check.h"
#include "core/config/read.h"
#include "core/error.h"
#include "costmodel/dense_estimator.h"
#include "costmodel/predict_durations.h"
#include "sim/simulate.h"
#include "study/simulate_plan.h"

namespace orrery::study {

core::Plan read_plan_for(const std::filesystem::path& file, const core::Model& model,
                         const core::Cluster& cluster, const core::Job& job) {
  core::Plan plan = core::read_plan(file);
  if (!plan.dense || plan.sparse) {
    throw core::ConfigError(file.string() + ": only plans of transformers ([dense]) are compared");
  }
  if (const auto reason = core::why_invalid(plan, model, job, cluster.devices())) {
    throw core::ConfigError(file.string() + ": " + *reason);
  }
  return plan;
}

ComparedPlan estimated(std::string name, const core::Plan& plan, const core::Model& model,
                       const core::Cluster& cluster, const core::Job& job) {
  const costmodel::DenseEstimator estimator(model, cluster, job);
  ComparedPlan compared{.name = std::move(name),
                        .plan = plan,
                        .estimate = estimator.estimate(*plan.dense),
                        .does_not_fit = {},
                        .simulated = {},
                        .traffic = {},
                        .faster = {}};
  if (const auto lacking = estimator.does_not_fit(*plan.dense))
    compared.does_not_fit = lacking->why;
  return compared;
}

void simulate_and_count(ComparedPlan& compared, const core::Model& model,
                        const core::Cluster& cluster, const core::Job& job) {
  const core::Program program = lower_plan({model, cluster, job, compared.plan});
  compared.traffic = core::mean_traffic(program, core::Topology(cluster));
  compared.simulated = simulated_step(program, cluster, job);
}

}  // namespace orrery::study
