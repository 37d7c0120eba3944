#pragma once
// What disturbs a simulated step, who waits for whom, and what faster links would gain; as text and as
// JSON.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/trace/waits.h"
#include "study/disturbances.h"

namespace orrery::app {

struct Disturbances {
  core::Seconds step;  ///< Its duration.
  std::vector<study::DisturbanceCost> costs;
  std::vector<core::WaitedFor> waited;
  std::vector<sim::LinkGain> links;
};

std::string disturbances_text(const Disturbances&);
void add_disturbances(nlohmann::json&, const Disturbances&);

}  // namespace orrery::app
