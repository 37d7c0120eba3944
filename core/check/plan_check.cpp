#include "core/check/plan_check.h"

#include "core/check/plan_rules.h"

namespace orrery::core {

std::optional<std::string> why_not_covered(const Model& model, const Job& job) {
  if (model.transformer) return transformer_not_covered(*model.transformer, job);
  return click_through_not_covered(*model.click_through, job);
}

std::optional<std::string> why_invalid(const Plan& plan, const Model& model, const Job& job,
                                       int devices) {
  if (plan.dense && plan.sparse) {
    return "a plan with both [dense] and [sparse] is not covered by lowering yet; use one of them";
  }
  if (plan.dense) return why_dense_invalid(*plan.dense, model, job, devices);
  if (plan.sparse) return why_sparse_invalid(*plan.sparse, model, job, devices);
  return "the plan has neither [dense] nor [sparse]; add the part that fits the model";
}

}  // namespace orrery::core
