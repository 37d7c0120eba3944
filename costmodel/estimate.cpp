#include "costmodel/estimate.h"

#include "core/check/plan_check.h"
#include "core/error.h"
#include "costmodel/dense_estimator.h"
#include "costmodel/sparse_estimator.h"

namespace orrery::costmodel {

std::string_view time_term_name(TimeTerm term) {
  switch (term) {
    case TimeTerm::Compute:
      return "compute";
    case TimeTerm::Recompute:
      return "recompute";
    case TimeTerm::Host:
      return "host";
    case TimeTerm::Interference:
      return "interference";
    case TimeTerm::TensorCommunication:
      return "tensor communication";
    case TimeTerm::ContextCommunication:
      return "context communication";
    case TimeTerm::ExpertCommunication:
      return "expert communication";
    case TimeTerm::ParameterGather:
      return "parameter gather";
    case TimeTerm::PipelineBubble:
      return "pipeline bubble";
    case TimeTerm::PipelineCommunication:
      return "pipeline communication";
    case TimeTerm::GradientCommunication:
      return "gradient communication";
    case TimeTerm::Optimizer:
      return "optimizer";
    case TimeTerm::ParameterServer:
      return "parameter server";
    case TimeTerm::Load:
      return "load";
  }
  core::check_failed("TimeTerm", "unknown term", __FILE__, __LINE__);
}

Outcome estimate(const core::Plan& plan, const core::Model& model, const core::Cluster& cluster,
                 const core::Job& job) {
  if (const auto why = core::why_invalid(plan, model, job, cluster.devices())) {
    return Infeasible{.reason = Infeasible::Reason::Invalid,
                      .why = *why,
                      .needed = std::nullopt,
                      .available = std::nullopt};
  }
  if (plan.sparse) return estimate_sparse(plan, model, cluster, job);
  const DenseEstimator estimator(model, cluster, job);
  if (auto too_large = estimator.does_not_fit(*plan.dense)) return *too_large;
  return estimator.estimate(*plan.dense);
}

double model_flops_per_token(const core::Transformer& model, int sequence) {
  double matrix_parameters = static_cast<double>(core::active_parameter_count(model));
  const double lookups = (model.tied_embeddings ? 0.0 : 1.0) * model.vocab +
                         (model.position == core::PositionKind::Learned ? model.max_positions : 0);
  matrix_parameters -= lookups * model.hidden;
  return 6.0 * matrix_parameters +
         12.0 * model.layers * model.heads * model.head_dim * static_cast<double>(sequence);
}

}  // namespace orrery::costmodel
