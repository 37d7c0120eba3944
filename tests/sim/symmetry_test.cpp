// Folding by what the links carry: on every family of networks, and where something disturbs a rank or
// a link, what is simulated is as if every rank had been.

#include "sim/symmetry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>

#include "core/error.h"
#include "sim/fold_choice.h"
#include "sim/simulate.h"
#include "tests/sim/lowered_programs.h"

namespace orrery::sim {
namespace {

using namespace core::literals;
using core::DensePlan;
using core::Program;
using core::Rank;
using core::Seconds;

constexpr double kRelative = 1e-9;

DensePlan plan_of(int data, int sharding, int tensor, int pipeline) {
  DensePlan plan;
  plan.data = data;
  plan.sharding = sharding;
  if (sharding > 1) plan.sharding_stage = 1;
  plan.tensor = tensor;
  plan.pipeline = pipeline;
  return plan;
}

/// 8 nodes of 2 devices with a card each.
core::Cluster cluster_of(core::NetworkKind kind) {
  core::Cluster cluster = gpu_cluster(8, 2, 2);
  core::Network& network = cluster.network;
  network.kind = kind;
  network.torus = {{4, 2}, 1, {1.0_us, 20.0_GBps}};
  network.dragonfly = {1, 2, 4, 2, {0.5_us, 30.0_GBps}, {1.0_us, 15.0_GBps}};
  core::SwitchGraph& graph = network.graph;
  graph.switches = {"a", "b", "c"};
  for (int node = 0; node < 8; ++node) graph.attached.push_back({node / 4});
  for (const auto& [from, to] : {std::pair(0, 2), std::pair(2, 0), std::pair(1, 2), std::pair(2, 1),
                                 std::pair(0, 1), std::pair(1, 0)}) {
    graph.wires.push_back({from, to, {1.0_us, 40.0_GBps}});
  }
  return cluster;
}

std::vector<core::Cluster> networks() {
  std::vector<core::Cluster> all;
  for (const auto kind :
       {core::NetworkKind::Star, core::NetworkKind::FatTree, core::NetworkKind::Rail,
        core::NetworkKind::Torus, core::NetworkKind::Dragonfly, core::NetworkKind::Graph}) {
    all.push_back(cluster_of(kind));
  }
  core::Cluster within = cluster_of(core::NetworkKind::Rail);
  within.network.cross_rail = core::CrossRail::WithinNode;
  core::Cluster pods = cluster_of(core::NetworkKind::FatTree);
  pods.network.pods = core::Pods{2, 3.0};
  core::Cluster hashed = pods;
  hashed.network.spreading = core::Spreading::Hash;
  hashed.network.spines = core::Spines{2, 2};
  for (const core::Cluster& cluster : {within, pods, hashed}) all.push_back(cluster);
  return all;
}

using Times = std::map<std::pair<Rank, core::InstructionRef>, std::array<double, 3>>;
Times times_of(const core::Trace& trace) {
  Times times;
  for (const core::Span& s : trace.spans) {
    const Rank rank = trace.lanes[static_cast<std::size_t>(s.lane)].rank;
    times[{rank, s.instruction}] = {s.start.value, s.transfer.value, s.end.value};
  }
  return times;
}

/// How many ranks stand for all; every time of theirs is what simulating every rank gives.
std::size_t ranks_that_stand_for_all(const Program& program, const core::Cluster& cluster,
                                     const core::Perturbations& perturbations = {}) {
  const core::Durations durations = varied_durations(program, 20.0_us);
  SimulateOptions options;
  options.steps = 2;
  options.memory_counters = false;
  options.exact_links = true;
  options.perturbations = perturbations;
  const core::Trace every = simulate(program, durations, cluster, options);
  options.folded = true;
  const core::Trace folded = simulate(program, durations, cluster, options);
  EXPECT_NEAR(folded.duration().value, every.duration().value, kRelative * every.duration().value);
  const Times all = times_of(every);
  double worst = 0;
  for (const auto& [key, times] : times_of(folded)) {
    for (std::size_t i = 0; i < 3; ++i) {
      worst = std::max(worst, std::abs(times[i] - all.at(key)[i]));
    }
  }
  EXPECT_LE(worst, kRelative * every.duration().value) << core::network_name(cluster.network.kind);
  const Networks networks(cluster, perturbations, options.steps);
  return fold_for(program, cluster, networks, options).simulated.size();
}

std::vector<DensePlan> plans() {
  return {plan_of(16, 1, 1, 1), plan_of(2, 4, 2, 1), plan_of(4, 1, 2, 2), plan_of(1, 4, 1, 4),
          plan_of(8, 1, 2, 1)};
}

TEST(Symmetry, FoldsEveryNetworkExactly) {
  for (const core::Cluster& cluster : networks()) {
    for (const DensePlan& plan : plans()) {
      const Program program = lowered_gpt2(plan, 4, 4, cluster);
      ranks_that_stand_for_all(program, cluster);
    }
  }
}

// On a star all are alike but for their stage, where gradients are reduced in rings; trees load some
// of the cards more than others.
TEST(Symmetry, FindsWhatIsAlike) {
  const core::Cluster cluster = cluster_of(core::NetworkKind::Star);
  const auto simulated = [&](const DensePlan& plan) {
    return ranks_that_stand_for_all(lowered_gpt2(plan, 4, 4, cluster), cluster);
  };
  EXPECT_EQ(simulated(plan_of(1, 4, 2, 2)), 2U);
  EXPECT_EQ(simulated(plan_of(1, 8, 2, 1)), 1U);
  EXPECT_EQ(simulated(plan_of(2, 4, 2, 1)), 1U);
}

// A straggler of one pipeline of eight ranks in two stages: it, the others of its stage, and what they
// have to do with, in its replica and in the others.
TEST(Symmetry, UnfoldsAroundAStraggler) {
  core::Perturbations perturbations;
  perturbations.stragglers = {{Rank(5), 1.5, {}}};
  for (const core::Cluster& cluster : networks()) {
    for (const DensePlan& plan : plans()) {
      const Program program = lowered_gpt2(plan, 4, 4, cluster);
      ranks_that_stand_for_all(program, cluster, perturbations);
    }
  }
  const core::Cluster star = cluster_of(core::NetworkKind::Star);
  const Program program = lowered_gpt2(plan_of(4, 1, 2, 2), 4, 4, star);
  const std::size_t simulated = ranks_that_stand_for_all(program, star, perturbations);
  EXPECT_GT(simulated, 2U);
  EXPECT_LT(simulated, 16U);
}

// Slow in the second step only, and around a link that has failed.
TEST(Symmetry, UnfoldsAroundLinks) {
  for (const core::Cluster& cluster : networks()) {
    const core::Topology topology(cluster);
    core::Perturbations perturbations;
    perturbations.slow_links = {{*topology.find_link("node 3 card 1 out"), 0.3, {1, std::nullopt}}};
    for (const DensePlan& plan : plans()) {
      const Program program = lowered_gpt2(plan, 4, 4, cluster);
      ranks_that_stand_for_all(program, cluster, perturbations);
    }
  }
  const core::Cluster torus = cluster_of(core::NetworkKind::Torus);
  core::Perturbations failed;
  failed.failed_links = {{*core::Topology(torus).find_link("switch 0 to 1"), {0, 0}}};
  for (const DensePlan& plan : plans()) {
    ranks_that_stand_for_all(lowered_gpt2(plan, 4, 4, torus), torus, failed);
  }
}

TEST(Symmetry, UnfoldsAroundOthersTraffic) {
  core::Perturbations perturbations;
  perturbations.background = {{Rank(0), Rank(9), 10.0_GBps}};
  for (const core::Cluster& cluster : networks()) {
    for (const DensePlan& plan : plans()) {
      const Program program = lowered_gpt2(plan, 4, 4, cluster);
      ranks_that_stand_for_all(program, cluster, perturbations);
    }
  }
}

// Metamorphic: on another node a straggler costs as much.
TEST(Symmetry, StragglersCostTheSameWhereverTheyAre) {
  const core::Cluster cluster = cluster_of(core::NetworkKind::Star);
  const Program program = lowered_gpt2(plan_of(8, 1, 2, 1), 4, 4, cluster);
  const core::Durations durations = varied_durations(program, 20.0_us);
  const auto step = [&](int rank) {
    SimulateOptions options;
    options.folded = true;
    options.perturbations.stragglers = {{Rank(rank), 2.0, {}}};
    return simulate_step(program, durations, cluster, options).value;
  };
  for (const int rank : {1, 6, 15}) EXPECT_NEAR(step(rank), step(0), kRelative * step(0));
}

}  // namespace
}  // namespace orrery::sim
