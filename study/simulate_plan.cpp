#include "study/simulate_plan.h"

#include <fmt/format.h>

#include "core/check/program_check.h"
#include "core/error.h"
#include "core/lowering/lowering.h"
#include "costmodel/predict_durations.h"
#include "study/machine_memory.h"

namespace orrery::study {

core::Program lower_plan(const Inputs& inputs) {
  core::Program program = core::lower(inputs.plan, inputs.model, inputs.cluster, inputs.job);
  const std::vector<std::string> faults = core::check_program(program);
  ORRERY_CHECK(faults.empty(), "lowering made an unsound program: " + faults.front());
  return program;
}

core::Trace simulate_plan(const Inputs& inputs, const core::Program& program,
                          const sim::SimulateOptions& options) {
  require_memory(trace_memory(simulated_spans(program, inputs.cluster, options)),
                 fmt::format("a trace of {} steps", options.steps), "simulate fewer steps");
  return sim::simulate(program, costmodel::predict_durations(program, inputs.cluster, inputs.job),
                       inputs.cluster, options);
}

core::Seconds simulated_step(const core::Program& program, const core::Cluster& cluster,
                             const core::Job& job) {
  sim::SimulateOptions options;
  options.folded = true;
  options.memory_counters = false;
  return sim::simulate_step(program, costmodel::predict_durations(program, cluster, job), cluster,
                            options);
}

}  // namespace orrery::study
