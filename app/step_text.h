#pragma once
// A step's report as text and as JSON.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "study/inputs.h"
#include "study/step_report.h"

namespace orrery::app {

/// Lines for a terminal: length, speed, memory, where the time went.
std::string step_text(const study::Inputs&, const study::StepReport&);

nlohmann::json step_json(const study::Inputs&, const study::StepReport&);

}  // namespace orrery::app
