#pragma once
// What a trace says of a training step, in the terms people compare runs by.

#include <optional>
#include <vector>

#include "core/program.h"
#include "core/trace.h"
#include "core/trace/step_breakdown.h"
#include "study/inputs.h"

namespace orrery::study {

struct StepReport {
  int step = 0;  ///< The reported one: of a measured trace the fastest after the first.
  core::Seconds length;
  double per_second = 0.0;  ///< Tokens of a transformer, samples of a click-through model.
  /// Model FLOPs (costmodel::model_flops_per_token) over what all devices could do at their peak.
  /// Absent for click-through models and where a device states no peak.
  std::optional<double> mfu;
  /// Of the rank that lacks most (or has least to spare): its role's buffers at their most and what the
  /// device reserves; and what the device has.
  core::Bytes memory, available;
  core::StepBreakdown mean;                ///< Over ranks.
  std::vector<core::StepBreakdown> ranks;  ///< By recorded rank.
  std::optional<double> dollars;           ///< Price of one step.
};

StepReport report_step(const Inputs&, const core::Program&, const core::Trace&);

}  // namespace orrery::study
