// Fits the launch time of each framework that says what it is fitted on
// (data/validation/frameworks.toml) to those steps of data/validation/steps.csv, and prints it. Run
// by bench/fit_launch.sh.

#include <fmt/core.h>

#include <cmath>
#include <string>
#include <vector>

#include "study/validate/validate.h"

namespace {

using namespace orrery;

double mean_error(const std::vector<study::MeasuredStep>& steps,
                  const study::Conventions& conventions) {
  const study::Validation validation = study::validate(steps, conventions, {});
  double sum = 0;
  int predicted = 0;
  for (const study::RowResult& row : validation.rows) {
    if (!row.predicted()) continue;
    sum += std::abs(row.error);
    ++predicted;
  }
  return predicted > 0 ? sum / predicted : INFINITY;
}

void fit(std::size_t entry, const std::vector<study::MeasuredStep>& all,
         study::Conventions conventions) {
  study::Framework& framework = conventions.frameworks[entry];
  std::vector<study::MeasuredStep> steps;
  for (const study::MeasuredStep& step : all) {
    if (step.framework == framework.name && framework.fitted_on(step)) steps.push_back(step);
  }
  double best = INFINITY;
  int best_us = 0;
  constexpr int kMost = 100;  // Microseconds; an eager operator takes some 5 to 50.
  for (int us = 1; us <= kMost; ++us) {
    framework.launch = core::Seconds(us * 1e-6);
    const double error = mean_error(steps, conventions);
    if (error < best) {
      best = error;
      best_us = us;
    }
  }
  fmt::print("{}: launch = {} us over {} steps, mean error {:.1f}%\n", framework.name, best_us,
             steps.size(), best * 100);
}

}  // namespace

int main() {
  const std::string folder = std::string(ORRERY_SOURCE_DIR) + "/data/validation/";
  const auto steps = study::read_measured_steps(folder + "steps.csv");
  const study::Conventions conventions{study::read_machines(folder + "machines.toml"),
                                       study::read_frameworks(folder + "frameworks.toml")};
  for (std::size_t i = 0; i < conventions.frameworks.size(); ++i) {
    if (conventions.frameworks[i].fitted) fit(i, steps, conventions);
  }
  return 0;
}
