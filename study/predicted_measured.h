#pragma once
// A simulated and a measured trace of one program, side by side.

#include <string>
#include <vector>

#include "core/trace.h"
#include "core/units.h"

namespace orrery::study {

/// All spans of one operation ("linear", "all_reduce") in a step, over all ranks.
struct OperationComparison {
  std::string operation;
  double executions = 0;    ///< In one step.
  core::Seconds predicted;  ///< Sum of their durations in one step, waiting not counted.
  core::Seconds measured;   ///< Median over steps.

  /// predicted / measured − 1.
  double error() const { return predicted / measured - 1.0; }
};

struct Comparison {
  core::Seconds predicted_step;
  core::Seconds measured_step;                  ///< The fastest after the first, which warms up.
  std::vector<OperationComparison> operations;  ///< Largest measured first.

  double error() const { return predicted_step / measured_step - 1.0; }
};

/// Duration of the fastest step after the first (of the first where there is no other).
core::Seconds fastest_step(const core::Trace&);

/// Both traces have steps; a lane that stands for several ranks counts as often.
Comparison compare(const core::Trace& predicted, const core::Trace& measured);

}  // namespace orrery::study
