#include "costmodel/pipeline_cost.h"

#include <algorithm>

#include "core/error.h"

namespace orrery::costmodel {
namespace {

using core::Seconds;

Seconds largest(const std::vector<Seconds>& values) {
  return values.empty() ? Seconds(0) : *std::max_element(values.begin(), values.end());
}

// Largest mean of a cycle; one over r stages needs r microbatches.
Seconds one_f_one_b_period(const PipelineStages& stages, int microbatches) {
  const std::size_t p = stages.forward.size();
  Seconds period;
  for (std::size_t s = 0; s < p; ++s) {
    Seconds weight;
    for (std::size_t e = s; e < p && e - s < static_cast<std::size_t>(microbatches); ++e) {
      if (e > s) weight += 2 * stages.message[e - 1];
      weight += stages.forward[e] + stages.backward[e];
      period = std::max(period, weight / static_cast<double>(e - s + 1));
    }
  }
  return period;
}

}  // namespace

Seconds pipeline_period(core::PipelineSchedule schedule, const PipelineStages& stages,
                        int microbatches) {
  switch (schedule) {
    case core::PipelineSchedule::GPipe: {
      const Seconds message = largest(stages.message);
      return std::max(largest(stages.forward), message) +
             std::max(largest(stages.backward), message);
    }
    case core::PipelineSchedule::OneFOneB:
      return one_f_one_b_period(stages, microbatches);
    case core::PipelineSchedule::Interleaved:
    case core::PipelineSchedule::ZeroBubble:
      break;
  }
  core::check_failed("PipelineSchedule", "no closed form of this schedule", __FILE__, __LINE__);
}

Seconds pipeline_time(core::PipelineSchedule schedule, const PipelineStages& stages,
                      int microbatches) {
  Seconds once;
  for (std::size_t s = 0; s < stages.forward.size(); ++s) {
    once += stages.forward[s] + stages.backward[s];
  }
  for (const Seconds message : stages.message) once += 2 * message;
  return once + pipeline_period(schedule, stages, microbatches) * (microbatches - 1);
}

}  // namespace orrery::costmodel
