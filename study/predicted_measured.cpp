#include "study/predicted_measured.h"

#include <algorithm>

#include "core/error.h"
#include "study/simulate_plan.h"

namespace orrery::study {

core::Seconds fastest_step(const core::Trace& trace) {
  ORRERY_CHECK(!trace.steps.empty(), "the trace has steps");
  const std::size_t first = trace.steps.size() > 1 ? 1 : 0;
  core::Seconds fastest = trace.steps[first].end - trace.steps[first].start;
  for (std::size_t s = first; s < trace.steps.size(); ++s) {
    fastest = std::min(fastest, trace.steps[s].end - trace.steps[s].start);
  }
  return fastest;
}

PredictedMeasured compare_with_prediction(const Inputs& inputs, const core::Program& program,
                                          const core::Trace& measured) {
  sim::SimulateOptions options;
  options.steps = 3;  // As in a run, the first is not counted: ranks then start out of step.
  options.memory_counters = false;
  const core::Trace predicted = simulate_plan(inputs, program, options);
  return {fastest_step(predicted), fastest_step(measured),
          core::compare_operations(predicted, measured)};
}

}  // namespace orrery::study
