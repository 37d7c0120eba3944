#pragma once
// A run beside the simulation of the same program.

#include <vector>

#include "core/program.h"
#include "core/trace.h"
#include "core/trace/trace_comparison.h"
#include "core/units.h"
#include "study/inputs.h"

namespace orrery::study {

struct PredictedMeasured {
  core::Seconds predicted_step;
  core::Seconds measured_step;                        ///< fastest_step().
  std::vector<core::OperationComparison> operations;  ///< Largest difference first.

  double error() const { return predicted_step / measured_step - 1.0; }
};

/// Duration of the fastest step after the first, which warms up (of the first where there is no
/// other).
core::Seconds fastest_step(const core::Trace&);

/// Simulates the program that was run and compares.
/// @param measured  Of `program`, with at least one step.
PredictedMeasured compare_with_prediction(const Inputs&, const core::Program& program,
                                          const core::Trace& measured);

}  // namespace orrery::study
