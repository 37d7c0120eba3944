#include "sim/simulate.h"

#include <fmt/format.h>

#include <map>
#include <string>

#include "core/error.h"
#include "sim/fold.h"
#include "sim/interpreter.h"

namespace orrery::sim {

using core::Cluster;
using core::Durations;
using core::Program;

namespace {

Fold fold_for(const Program& program, const core::Topology& topology,
              const SimulateOptions& options) {
  if (options.folded) {
    if (auto fold = folded_ranks(program, topology)) return *std::move(fold);
  }
  return every_rank(program);
}

/// @throws core::SystemError when the cluster has fewer ranks than the program.
core::Topology topology_for(const Program& program, const Cluster& cluster) {
  core::Topology topology(cluster);
  if (static_cast<int>(program.ranks.size()) > topology.ranks()) {
    throw core::SystemError(fmt::format("the program has {} ranks, the cluster {} has {}",
                                        program.ranks.size(), cluster.name, topology.ranks()));
  }
  return topology;
}

}  // namespace

core::Trace simulate(const Program& program, const Durations& durations, const Cluster& cluster,
                     const SimulateOptions& options) {
  const core::Topology topology = topology_for(program, cluster);
  const Fold fold = fold_for(program, topology, options);
  core::TraceBuilder builder(program);
  for (std::size_t i = 0; i < fold.simulated.size(); ++i) {
    if (!fold.others[i].empty()) builder.stands_for(fold.simulated[i], fold.others[i]);
  }
  Interpreter interpreter(program, durations, cluster, topology, fold, options, &builder);
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
  const core::Topology topology = topology_for(program, cluster);
  const Fold fold = fold_for(program, topology, options);
  Interpreter interpreter(program, durations, cluster, topology, fold, options, nullptr);
  interpreter.run();
  const core::StepInfo& last = interpreter.steps().back();
  return last.end - last.start;
}

}  // namespace orrery::sim
