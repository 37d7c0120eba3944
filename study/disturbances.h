#pragma once
// What each of the things costs that disturb a simulated step.

#include <string>
#include <vector>

#include "core/perturbations.h"
#include "core/program.h"
#include "sim/link_gains.h"
#include "sim/simulate.h"
#include "study/inputs.h"

namespace orrery::study {

struct DisturbanceCost {
  std::string what;     ///< "rank 77 computes 1.3 times as long".
  core::Seconds costs;  ///< The last step's duration with all of them, less that without this one.
};

/// Of the perturbations in `options`, the costliest first; stragglers that are equally slow in the same
/// steps are one.
std::vector<DisturbanceCost> disturbance_costs(const Inputs&, const core::Program&,
                                               const sim::SimulateOptions&);

/// sim::link_gains() with the cost model's durations.
std::vector<sim::LinkGain> link_gains(const Inputs&, const core::Program&,
                                      const sim::SimulateOptions&, int most);

}  // namespace orrery::study
