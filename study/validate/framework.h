#pragma once
// What each training framework does that a published row does not say:
// data/validation/frameworks.toml.

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/plan.h"
#include "core/units.h"
#include "study/validate/measured_step.h"

namespace orrery::study {

struct Framework {
  std::optional<core::Seconds> launch;  ///< Host's time to issue one kernel; absent: the device's.
  bool overlap_gradients = true;
  bool recompute_whole = false;  ///< As DensePlan's.
  double flash_speed = 1.0;      ///< Of its flash attention, of the one that devices are fitted to.
  /// Steps of this source, with so many layers of this width, were used to fit `launch`.
  struct Fitted {
    std::string source;
    int layers = 0;
    int hidden = 0;
  };
  std::optional<Fitted> fitted;

  /// Whether the step was used to fit this framework, and so proves nothing.
  bool fitted_on(const MeasuredStep&) const;
};

using Frameworks = std::map<std::string, Framework>;

/// [[framework]] tables with `name`, and optionally `launch`, `overlap_gradients`, `recompute_whole`,
/// `flash_speed` and
/// `fitted_on`; the constants with their source.
/// @throws ConfigError
Frameworks read_frameworks(const std::filesystem::path&);

/// The framework of that name; one that is not known keeps to the plan's defaults.
Framework framework_of(const Frameworks&, const std::string& name);

}  // namespace orrery::study
