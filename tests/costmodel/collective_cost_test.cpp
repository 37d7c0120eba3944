#include "costmodel/collective_cost.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/network/topology.h"

namespace orrery::costmodel {
namespace {

using namespace core::literals;
using core::CollectiveAlgorithm;
using core::CollectiveKind;
using core::CollectiveMethod;
using core::Rank;

core::Cluster cluster_of(int nodes, int devices, int cards,
                         core::NodeFabric fabric = core::NodeFabric::Switch) {
  core::NodeType type;
  type.name = "node";
  type.device.memory_bandwidth = 90.0_GBps;
  type.devices = devices;
  type.fabric = fabric;
  type.device_link = {3.0_us, 200.0_GBps};
  type.network_cards = cards;
  type.network_card = {2.0_us, 25.0_GBps};
  core::Cluster cluster;
  cluster.groups = {{type, nodes}};
  if (nodes > 1) {
    cluster.network.kind = core::NetworkKind::Star;
    cluster.network.hop_latency = 0.5_us;
    cluster.network.efficiency = 0.9;
  }
  return cluster;
}

core::Cluster fat_tree(int nodes, int nodes_per_leaf) {
  core::Cluster cluster = cluster_of(nodes, 4, 4);
  cluster.network.kind = core::NetworkKind::FatTree;
  cluster.network.nodes_per_leaf = nodes_per_leaf;
  return cluster;
}

/// The cluster with a library that has every cost.
core::Cluster with_costs(core::Cluster cluster) {
  core::Collectives& c = cluster.collectives;
  c.base = 10.0_us;
  c.ring_ends = 0.5;
  c.tree_wire = 1.1;
  c.ll128 = core::ProtocolCost{.step = 0.5, .network_step = 0.25, .wire = 1.1};
  c.ll = core::ProtocolCost{.step = 0.2, .network_step = 0.2, .wire = 2};
  c.in_switch = core::InSwitchCost{20.0_us, 1.25};
  c.reduction = 30.0_GBps;
  return cluster;
}

std::vector<Rank> strided(int n, int stride) {
  std::vector<Rank> ranks;
  for (int i = 0; i < n; ++i) ranks.emplace_back(i * stride);
  return ranks;
}

struct Case {
  const char* what;
  core::Cluster cluster;
  std::vector<Rank> members;
};

std::vector<Case> plain_cases() {
  return {{"a whole node", cluster_of(1, 8, 0), strided(8, 1)},
          {"two of a node", cluster_of(1, 8, 0), strided(2, 4)},
          {"three of a node", cluster_of(1, 8, 0), strided(3, 1)},
          {"one per node, two nodes", cluster_of(2, 8, 8), strided(2, 8)},
          {"one per node, three nodes", cluster_of(3, 8, 8), strided(3, 8)},
          {"one per node, four nodes", cluster_of(4, 8, 4), strided(4, 8)},
          {"one per node, every second node", cluster_of(13, 2, 1), strided(7, 4)},
          {"two nodes, a card each", cluster_of(2, 8, 8), strided(16, 1)},
          {"five nodes, cards shared by two", cluster_of(5, 8, 4), strided(40, 1)},
          {"five nodes, every second device", cluster_of(5, 8, 4), strided(20, 2)},
          {"six nodes, one card", cluster_of(6, 4, 1), strided(24, 1)},
          {"more cards than devices", cluster_of(3, 2, 4), strided(6, 1)},
          {"a quad of a cube mesh", cluster_of(1, 8, 0, core::NodeFabric::CubeMesh), strided(4, 1)},
          {"cube meshes", cluster_of(3, 8, 4, core::NodeFabric::CubeMesh), strided(24, 1)},
          {"quads of cube meshes",
           cluster_of(2, 8, 4, core::NodeFabric::CubeMesh),
           {Rank(0), Rank(1), Rank(2), Rank(3), Rank(8), Rank(9), Rank(10), Rank(11)}},
          {"a PCIe node", cluster_of(1, 4, 0, core::NodeFabric::PcieTree), strided(4, 1)},
          {"PCIe nodes", cluster_of(3, 4, 2, core::NodeFabric::PcieTree), strided(12, 1)},
          {"ranks sharing memory", cluster_of(1, 4, 0, core::NodeFabric::Memory), strided(4, 1)},
          {"CPU nodes", cluster_of(4, 2, 1, core::NodeFabric::Memory), strided(8, 1)},
          {"within a leaf", fat_tree(8, 4), strided(16, 1)},
          {"over leaves", fat_tree(8, 4), strided(32, 1)},
          {"over leaves, one per node", fat_tree(8, 2), strided(8, 4)},
          {"over leaves, one per leaf", fat_tree(8, 2), strided(4, 8)}};
}

std::vector<Case> cases() {
  std::vector<Case> all = plain_cases();
  for (Case c : plain_cases()) {
    c.cluster = with_costs(c.cluster);
    all.push_back(c);
  }
  return all;
}

std::vector<CollectiveMethod> methods(const core::Collectives& costs) {
  std::vector<CollectiveMethod> all;
  for (int a = 0; a < core::kCollectiveAlgorithms; ++a) {
    const auto algorithm = static_cast<CollectiveAlgorithm>(a);
    all.push_back(algorithm);
    if (costs.ll128) all.push_back({algorithm, core::Protocol::LL128});
    if (costs.ll) all.push_back({algorithm, core::Protocol::LL});
  }
  return all;
}

// The closed form is the sum over phases of latency + max over links of bytes / β + sums.
TEST(CollectiveTime, EqualsTheUncontendedTimeOfThePhases) {
  int compared = 0;
  for (const Case& c : cases()) {
    const core::Topology topology(c.cluster);
    const FabricCost fabric = fabric_cost(c.cluster);
    const auto where = placement_of(c.members, c.cluster, Company::Alone);
    ASSERT_TRUE(where) << c.what;
    for (const CollectiveMethod method : methods(c.cluster.collectives)) {
      for (const auto kind :
           {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter, CollectiveKind::AllGather,
            CollectiveKind::Broadcast, CollectiveKind::AllToAll}) {
        if (!core::supports(method.algorithm, kind, c.members, topology)) continue;
        for (const core::Bytes bytes : {1.0_B, 64.0_KB, 100.0_MB}) {
          const double expected =
              core::uncontended_time(
                  core::collective_phases(method, kind, c.members, bytes, topology), topology)
                  .value;
          const double closed = collective_time(method, kind, bytes, *where, fabric).value;
          EXPECT_NEAR(closed / expected, 1.0, 1e-9)
              << c.what << ": " << core::algorithm_name(method.algorithm) << " "
              << core::collective_name(kind) << " of " << bytes.value << " bytes";
          ++compared;
        }
      }
    }
  }
  EXPECT_GT(compared, 1500);
}

// By both libraries.
TEST(ChooseMethod, TakesWhatTheCoreTakes) {
  for (Case c : cases()) {
    for (const auto library : {core::CollectiveLibrary::Nccl, core::CollectiveLibrary::AllPairs}) {
      c.cluster.collectives.library = library;
      const core::Topology topology(c.cluster);
      const FabricCost fabric = fabric_cost(c.cluster);
      const auto where = placement_of(c.members, c.cluster, Company::Alone);
      for (const auto kind : {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter,
                              CollectiveKind::AllGather, CollectiveKind::AllToAll}) {
        for (const core::Bytes bytes : {4.0_B, 100.0_KB, 10.0_MB, 1.0_GB}) {
          const auto expected = core::choose_method(kind, c.members, bytes, topology);
          const auto chosen = choose_method(kind, bytes, *where, fabric);
          EXPECT_NEAR(collective_time(chosen, kind, bytes, *where, fabric).value,
                      collective_time(expected, kind, bytes, *where, fabric).value, 1e-15)
              << c.what << " " << core::collective_name(kind) << " " << bytes.value;
        }
      }
    }
  }
}

// 4 sibling groups of 3 (one member per node, stride 4): in step they load each card 4/cards times.
TEST(CollectiveTime, SiblingGroupsShareTheCards) {
  for (const int cards : {1, 2, 4}) {
    const core::Cluster cluster = cluster_of(3, 4, cards);
    const core::Topology topology(cluster);
    std::vector<std::vector<core::CollectivePhase>> parts;
    for (int first = 0; first < 4; ++first) {
      parts.push_back(core::collective_phases(CollectiveAlgorithm::Ring, CollectiveKind::AllReduce,
                                              {Rank(first), Rank(first + 4), Rank(first + 8)},
                                              10.0_MB, topology));
    }
    const double expected = core::uncontended_time(core::together(parts), topology).value;
    const auto where = placement_of(strided(3, 4), cluster, Company::WholeNodes);
    EXPECT_NEAR(collective_time(CollectiveAlgorithm::Ring, CollectiveKind::AllReduce, 10.0_MB,
                                *where, fabric_cost(cluster))
                        .value /
                    expected,
                1.0, 1e-9)
        << cards;
  }
}

TEST(FabricCost, RefusesNetworksWithoutAFormula) {
  core::Cluster cluster = cluster_of(2, 8, 8);
  EXPECT_FALSE(why_unpriced(cluster).has_value());
  cluster.network.kind = core::NetworkKind::Torus;
  try {
    fabric_cost(cluster);
    FAIL() << "there is no formula for a torus";
  } catch (const core::ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("a network of kind \"torus\""), std::string::npos);
  }
  cluster = fat_tree(8, 2);
  EXPECT_FALSE(why_unpriced(cluster).has_value());
  cluster.network.pods = core::Pods{2, 4.0};
  EXPECT_TRUE(why_unpriced(cluster).has_value());
}

TEST(PlacementOf, HasNoAnswerForUnevenNodes) {
  EXPECT_FALSE(placement_of({Rank(0), Rank(1), Rank(8)}, cluster_of(2, 8, 8), Company::Alone));
}

// A message's route: Σ α + bytes / min β.
TEST(MessageTime, EqualsTheRoute) {
  for (const core::Cluster& cluster :
       {cluster_of(2, 4, 4), fat_tree(8, 2), cluster_of(2, 4, 2, core::NodeFabric::PcieTree)}) {
    const core::Topology topology(cluster);
    const FabricCost fabric = fabric_cost(cluster);
    const auto expected = [&](int to) {
      const core::Route route = topology.route(Rank(0), Rank(to));
      return (topology.latency(route) + 1.0_MB / topology.bandwidth(route)).value;
    };
    EXPECT_NEAR(message_time(1.0_MB, true, true, 1, fabric).value, expected(1), 1e-15);
    EXPECT_NEAR(message_time(1.0_MB, false, true, 1, fabric).value, expected(4), 1e-15);
    if (cluster.network.kind == core::NetworkKind::FatTree) {
      EXPECT_NEAR(message_time(1.0_MB, false, false, 1, fabric).value, expected(12), 1e-15);
    }
  }
}

// Two devices of a cube mesh have one link of their six.
TEST(MessageTime, CubeMeshPairsHaveOneLink) {
  const FabricCost fabric = fabric_cost(cluster_of(1, 8, 0, core::NodeFabric::CubeMesh));
  EXPECT_NEAR(message_time(1.0_MB, true, true, 1, fabric).value, 3e-6 + 6 * 1e6 / 200e9, 1e-15);
}

// Metamorphic: bandwidths doubled, latencies halved.
TEST(CollectiveTime, ANetworkTwiceAsFastTakesHalfTheTime) {
  for (const Case& c : cases()) {
    core::Cluster fast = c.cluster;
    core::NodeType& type = fast.groups[0].type;
    type.device.memory_bandwidth *= 2.0;
    for (core::LinkCost* link : {&type.device_link, &type.network_card}) {
      link->latency *= 0.5;
      link->bandwidth *= 2.0;
    }
    fast.network.hop_latency *= 0.5;
    core::Collectives& library = fast.collectives;
    library.base *= 0.5;
    if (library.in_switch) library.in_switch->latency *= 0.5;
    if (library.reduction) *library.reduction *= 2.0;
    const auto where = placement_of(c.members, c.cluster, Company::WholeNodes);
    const auto time = [&](const core::Cluster& cluster) {
      return collective_time(CollectiveAlgorithm::Ring, CollectiveKind::AllReduce, 3.0_MB, *where,
                             fabric_cost(cluster))
          .value;
    };
    EXPECT_NEAR(time(fast), time(c.cluster) / 2, 1e-12 * time(c.cluster)) << c.what;
  }
}

}  // namespace
}  // namespace orrery::costmodel
