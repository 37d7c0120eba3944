// Simulated collectives against closed forms and against SimGrid.
#include <gtest/gtest.h>

#include <map>

#include "core/network/collective_algorithm.h"
#include "sim/interpreter.h"
#include "sim/simulate.h"
#include "tests/sim/small_programs.h"

namespace orrery::sim {
namespace {

using namespace core::literals;
using core::Bytes;
using core::CollectiveAlgorithm;
using core::CollectiveKind;
using core::LinkKind;
using core::Rank;
using core::Seconds;
using core::Topology;

constexpr double kGiB = 1073741824.0;

ProgramBuilder one_collective(const std::vector<int>& members, int ranks, CollectiveKind kind,
                              Bytes bytes) {
  ProgramBuilder b(ranks);
  const core::GroupId group = b.group(members);
  for (const int m : members) b.collective(m, kind, group, bytes);
  return b;
}

std::vector<int> first(int n) {
  std::vector<int> all;
  for (int i = 0; i < n; ++i) all.push_back(i);
  return all;
}

core::Cluster dgx(int nodes, core::NodeFabric fabric = core::NodeFabric::Switch) {
  core::NodeType type;
  type.devices = 4;
  type.fabric = fabric;
  type.device.memory_bandwidth = 40.0_GBps;
  type.device_link = {3.0_us, 200.0_GBps};
  type.network_cards = 2;
  type.network_card = {2.0_us, 25.0_GBps};
  core::Cluster cluster;
  cluster.groups = {{type, nodes}};
  cluster.network = {core::NetworkKind::FatTree, 2, 2.0, 0.5_us, 0.9};
  return cluster;
}

/// What a library may cost beside the links.
core::Collectives costs_of(core::CollectiveLibrary library) {
  core::Collectives c;
  c.library = library;
  c.reduction = 30.0_GBps;
  if (library == core::CollectiveLibrary::AllPairs) return c;
  c.base = 10.0_us;
  c.ring_ends = 0.5;
  c.tree_wire = 1.1;
  c.ll128 = core::ProtocolCost{.step = 0.5, .network_step = 0.25, .wire = 1.1};
  c.in_switch = core::InSwitchCost{20.0_us, 1.25};
  return c;
}

void expect_the_uncontended_time(const core::Cluster& cluster) {
  const Topology topology(cluster);
  for (const std::vector<int>& members :
       {first(4), first(8), first(20), {0, 4, 8, 12, 16}, {0, 1, 5, 9, 10, 11}}) {
    for (int k = 0; k < 5; ++k) {
      const auto kind = static_cast<CollectiveKind>(k);
      for (const double bytes : {1e3, 1e6, 1e9}) {
        const ProgramBuilder b = one_collective(members, 20, kind, Bytes(bytes));
        const std::vector<Rank>& ranks = b.program.groups[0].members;
        const auto method = core::choose_method(kind, ranks, Bytes(bytes), topology);
        const double closed =
            core::uncontended_time(
                core::collective_phases(method, kind, ranks, Bytes(bytes), topology), topology)
                .value;
        const double simulated = simulate(b.program, b.durations, cluster).duration().value;
        EXPECT_NEAR(simulated, closed, 1e-9 * closed)
            << core::collective_name(kind) << " of " << members.size();
      }
    }
  }
}

// With nothing beside it, simulated time = Σ latency + max over links of bytes / β + sums, for every
// collective, library, fabric and placement.
TEST(SimulatedCollective, EqualsTheUncontendedTime) {
  for (const auto fabric : {core::NodeFabric::Switch, core::NodeFabric::CubeMesh,
                            core::NodeFabric::PcieTree, core::NodeFabric::Memory}) {
    core::Cluster cluster = dgx(5, fabric);
    expect_the_uncontended_time(cluster);
    for (const auto library : {core::CollectiveLibrary::Nccl, core::CollectiveLibrary::AllPairs}) {
      cluster.collectives = costs_of(library);
      expect_the_uncontended_time(cluster);
    }
  }
}

// 1 GiB, star, 50 GB/s, α = 2 · 0.5 us. T = 2(n−1)·α + 2(n−1)/n · S/β:
// n = 256: 0.043292 s, n = 1024: 0.044954 s (SimGrid 3.32).
TEST(SimulatedCollective, AgreesWithSimGridOnRings) {
  for (const auto& [n, expected] : {std::pair(256, 0.043292), std::pair(1024, 0.044954)}) {
    const core::Cluster cluster = star(n, 0.5_us, 50.0_GBps);
    const ProgramBuilder b = one_collective(first(n), n, CollectiveKind::AllReduce, Bytes(kGiB));
    SimulateOptions options;
    options.algorithm = CollectiveAlgorithm::Ring;
    const double t = simulate(b.program, b.durations, cluster, options).duration().value;
    EXPECT_NEAR(t, expected, 0.5e-6);
    EXPECT_NEAR(t, 2 * (n - 1) * 1e-6 + 2.0 * (n - 1) / n * kGiB / 50e9, 1e-9 * t);
  }
}

// The same ring message by message: 2(n−1) steps of n messages of S/n on a chain of steps, each
// rank sending to the next and receiving from the one before.
TEST(SimulatedCollective, ARingStepByStepTakesTheSameTime) {
  const int n = 16;
  const core::Cluster cluster = star(n, 0.5_us, 50.0_GBps);
  ProgramBuilder b(n);
  std::vector<int> last(static_cast<std::size_t>(n), 0);
  for (int step = 0; step < 2 * (n - 1); ++step) {
    for (int r = 0; r < n; ++r) {
      int& before = last[static_cast<std::size_t>(r)];
      // A rank passes on what it received in the step before.
      const std::vector<int> waits = step == 0 ? std::vector<int>{} : std::vector<int>{before};
      b.send(r, (r + 1) % n, Bytes(kGiB / n), waits);
      before = b.receive(r, (r + n - 1) % n, Bytes(kGiB / n));
    }
  }
  const double t = simulate(b.program, b.durations, cluster).duration().value;
  EXPECT_NEAR(t, 2 * (n - 1) * 1e-6 + 2.0 * (n - 1) / n * kGiB / 50e9, 1e-9 * t);
}

// α + (n−1)/n · S/β: n = 64: 0.021140 s, n = 256: 0.021392 s (SimGrid 3.32).
TEST(SimulatedCollective, AgreesWithSimGridOnAllToAll) {
  for (const auto& [n, expected] : {std::pair(64, 0.021140), std::pair(256, 0.021392)}) {
    const core::Cluster cluster = star(n, 0.5_us, 50.0_GBps);
    const ProgramBuilder b = one_collective(first(n), n, CollectiveKind::AllToAll, Bytes(kGiB));
    EXPECT_NEAR(simulate(b.program, b.durations, cluster).duration().value, expected, 0.5e-6);
  }
}

// Every byte that leaves a port or card enters one; and the cards carry what the phases say.
TEST(SimulatedCollective, BytesInEqualBytesOut) {
  const core::Cluster cluster = dgx(4);
  const Topology topology(cluster);
  for (int k = 0; k < 5; ++k) {
    const ProgramBuilder b =
        one_collective(first(16), 16, static_cast<CollectiveKind>(k), Bytes(1e8));
    const Fold fold = every_rank(b.program);
    const SimulateOptions options;
    const Networks networks(cluster);
    Interpreter interpreter(b.program, b.durations, cluster, networks, fold, options, nullptr);
    interpreter.run();
    std::map<LinkKind, double> carried;
    for (std::size_t l = 0; l < topology.links().size(); ++l) {
      carried[topology.links()[l].kind] += interpreter.network().carried(static_cast<int>(l));
    }
    EXPECT_GT(carried[LinkKind::CardOut], 0);
    for (const auto& [out, in] : {std::pair(LinkKind::PortOut, LinkKind::PortIn),
                                  std::pair(LinkKind::CardOut, LinkKind::CardIn),
                                  std::pair(LinkKind::LeafUp, LinkKind::LeafDown)}) {
      EXPECT_NEAR(carried[out], carried[in], 1e-9 * carried[out]);
    }
  }
}

// Two devices of a cube mesh have one link of their six: α + 6·S/β.
TEST(SimulatedMessage, CubeMeshPairsHaveOneLink) {
  const core::Cluster cluster = dgx(1, core::NodeFabric::CubeMesh);
  ProgramBuilder b(4);
  b.send(0, 1, 1.0_GB);
  b.receive(1, 0, 1.0_GB);
  const double t = simulate(b.program, b.durations, cluster).duration().value;
  EXPECT_NEAR(t, 3e-6 + 6 * 1e9 / 200e9, 1e-9 * t);
}

// Two rings over the same pair of cards at once: each takes twice its 2·(1/2)·S/β.
TEST(SimulatedCollective, GroupsShareACard) {
  const core::Cluster cluster = dgx(2);
  ProgramBuilder b(8);
  for (const int d : {0, 1}) {
    const core::GroupId group = b.group({d, 4 + d});
    for (const int r : {d, 4 + d}) b.collective(r, CollectiveKind::AllReduce, group, 1.0_GB);
  }
  const double t = simulate(b.program, b.durations, cluster).duration().value;
  EXPECT_NEAR(t, 2 * 3e-6 + 2 * 1e9 / (0.9 * 25e9), 1e-9 * t);
}

}  // namespace
}  // namespace orrery::sim
