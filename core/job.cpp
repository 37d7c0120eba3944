#include "core/job.h"

#include <cmath>
#include <numbers>

#include "core/error.h"

namespace orrery::core {

int optimizer_state_count(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::AdamW:
    case OptimizerKind::Adam:
      return 2;
    case OptimizerKind::AdaGrad:
      return 1;
    case OptimizerKind::Sgd:
      return 0;
  }
  ORRERY_CHECK(false, "no such optimizer");
}

double learning_rate(const Job& job, int step) {
  ORRERY_CHECK(step >= 0, "steps are counted from 0");
  const double peak = job.optimizer.learning_rate;
  if (!job.schedule) return peak;
  const int warmup = job.schedule->warmup_steps;
  const double final_rate = job.schedule->final_learning_rate;
  if (step < warmup) return peak * (step + 1) / warmup;
  if (step >= job.steps) return final_rate;
  const double progress = static_cast<double>(step - warmup) / (job.steps - warmup);
  return final_rate + 0.5 * (peak - final_rate) * (1.0 + std::cos(std::numbers::pi * progress));
}

}  // namespace orrery::core
