#include "sim/simulate.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>

#include "core/error.h"
#include "sim/fold_choice.h"
#include "sim/interpreter.h"

namespace orrery::sim {

using core::Cluster;
using core::Durations;
using core::Program;

namespace {

/// @throws core::SystemError when the cluster has fewer ranks than the program.
Networks networks_for(const Program& program, const Cluster& cluster,
                      const SimulateOptions& options) {
  Networks networks(cluster, options.perturbations, options.steps);
  if (static_cast<int>(program.ranks.size()) > networks.healthy().ranks()) {
    throw core::SystemError(fmt::format("the program has {} ranks, the cluster {} has {}",
                                        program.ranks.size(), cluster.name,
                                        networks.healthy().ranks()));
  }
  return networks;
}

}  // namespace

core::Trace simulate(const Program& program, const Durations& durations, const Cluster& cluster,
                     const SimulateOptions& options) {
  const Networks networks = networks_for(program, cluster, options);
  const Fold fold = fold_for(program, cluster, networks, options);
  core::TraceBuilder builder(program);
  for (std::size_t i = 0; i < fold.simulated.size(); ++i) {
    if (!fold.others[i].empty()) builder.stands_for(fold.simulated[i], fold.others[i]);
  }
  Interpreter interpreter(program, durations, cluster, networks, fold, options, &builder);
  interpreter.run();
  return builder.build(true, {{"plan", program.plan},
                              {"model", program.model},
                              {"cluster", cluster.name},
                              {"ranks", std::to_string(program.ranks.size())},
                              {"simulated ranks", std::to_string(fold.simulated.size())}});
}

core::Seconds simulate_step(const Program& program, const Durations& durations,
                            const Cluster& cluster, const SimulateOptions& options) {
  ORRERY_CHECK(options.steps > 0, "a simulation of no step");
  const Networks networks = networks_for(program, cluster, options);
  const Fold fold = fold_for(program, cluster, networks, options);
  Interpreter interpreter(program, durations, cluster, networks, fold, options, nullptr);
  interpreter.run();
  const core::StepInfo& last = interpreter.steps().back();
  return last.end - last.start;
}

}  // namespace orrery::sim
