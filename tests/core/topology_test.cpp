#include "core/network/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace orrery::core {
namespace {

using namespace literals;
using ::testing::ElementsAre;

NodeType node_type(NodeFabric fabric, int devices, int cards) {
  NodeType type;
  type.devices = devices;
  type.fabric = fabric;
  type.device.memory_bandwidth = 20.0_GBps;
  type.device_link = {4.0_us, 300.0_GBps};
  type.network_cards = cards;
  type.network_card = {2.0_us, 50.0_GBps};
  return type;
}

Cluster cluster_of(const NodeType& type, int nodes) {
  Cluster cluster;
  cluster.groups = {{type, nodes}};
  cluster.network.kind = nodes == 1 ? NetworkKind::None : NetworkKind::Star;
  cluster.network.hop_latency = 0.5_us;
  return cluster;
}

std::vector<std::string> names(const Topology& topology, int from, int to) {
  std::vector<std::string> out;
  for (const Hop& hop : topology.route(Rank(from), Rank(to)))
    out.push_back(topology.name(hop.link));
  return out;
}

TEST(Topology, SwitchedDevicesHaveTheirOwnPorts) {
  const Topology topology(cluster_of(node_type(NodeFabric::Switch, 8, 8), 1));
  EXPECT_EQ(topology.ranks(), 8);
  EXPECT_EQ(topology.links().size(), 16u);
  EXPECT_THAT(names(topology, 2, 5), ElementsAre("node 0 device 2 out", "node 0 device 5 in"));
  EXPECT_TRUE(topology.route(Rank(3), Rank(3)).empty());
  // α = device_link.latency once, β = device_link.bandwidth.
  const Route route = topology.route(Rank(2), Rank(5));
  EXPECT_DOUBLE_EQ(topology.latency(route).value, 4e-6);
  EXPECT_DOUBLE_EQ(topology.bandwidth(route).value, 300e9);
}

// 8 devices on 4 cards: devices 0, 1 use card 0 and devices 6, 7 card 3.
TEST(Topology, DevicesShareTheCardsEvenly) {
  const Topology topology(cluster_of(node_type(NodeFabric::Switch, 8, 4), 2));
  EXPECT_THAT(names(topology, 1, 14), ElementsAre("node 0 card 0 out", "node 1 card 3 in"));
  EXPECT_THAT(names(topology, 0, 15), ElementsAre("node 0 card 0 out", "node 1 card 3 in"));
  // α = card latency once + 2 network links.
  EXPECT_DOUBLE_EQ(topology.latency(topology.route(Rank(1), Rank(14))).value, 2e-6 + 2 * 0.5e-6);
}

// 2 devices and 4 cards: each device has two, acting as one of twice the bandwidth.
TEST(Topology, SpareCardsAreMerged) {
  const Topology topology(cluster_of(node_type(NodeFabric::Switch, 2, 4), 2));
  EXPECT_DOUBLE_EQ(topology.bandwidth(topology.route(Rank(0), Rank(3))).value, 100e9);
}

TEST(Topology, CardsReachTheirEfficiency) {
  Cluster cluster = cluster_of(node_type(NodeFabric::Switch, 8, 8), 2);
  cluster.network.efficiency = 0.9;
  const Topology topology(cluster);
  EXPECT_DOUBLE_EQ(topology.bandwidth(topology.route(Rank(0), Rank(8))).value, 45e9);
}

TEST(Topology, PcieDevicesShareTheHostBridge) {
  const Topology topology(cluster_of(node_type(NodeFabric::PcieTree, 4, 1), 2));
  EXPECT_THAT(names(topology, 0, 1), ElementsAre("node 0 device 0 out", "node 0 shared up",
                                                 "node 0 shared down", "node 0 device 1 in"));
  EXPECT_THAT(names(topology, 0, 5),
              ElementsAre("node 0 device 0 out", "node 0 shared up", "node 0 card 0 out",
                          "node 1 card 0 in", "node 1 shared down", "node 1 device 1 in"));
}

// The memory carries Σ device memory bandwidth = 4 · 20 GB/s.
TEST(Topology, CpuRanksShareTheMemory) {
  const Topology topology(cluster_of(node_type(NodeFabric::Memory, 4, 1), 1));
  EXPECT_THAT(names(topology, 3, 0),
              ElementsAre("node 0 device 3 out", "node 0 shared up", "node 0 device 0 in"));
  EXPECT_DOUBLE_EQ(topology.bandwidth(topology.route(Rank(3), Rank(0))).value, 80e9);
}

// Behind a host bridge too, devices 0, 1 use card 0 and devices 2, 3 card 1.
TEST(Topology, DevicesBehindABridgeUseTheirOwnCards) {
  Cluster cluster;
  cluster.groups = {{node_type(NodeFabric::PcieTree, 4, 2), 2}};
  cluster.network.kind = NetworkKind::Star;
  const Topology topology(cluster);
  EXPECT_THAT(names(topology, 3, 4),
              ElementsAre("node 0 device 3 out", "node 0 shared up", "node 0 card 1 out",
                          "node 1 card 0 in", "node 1 shared down", "node 1 device 0 in"));
}

// 4 nodes of 2 cards under a leaf, 50 GB/s each, oversubscribed 2:1: trunk 4 · 2 · 50 / 2 = 200
// GB/s.
TEST(Topology, LeavesOfAFatTreeShareATrunk) {
  Cluster cluster = cluster_of(node_type(NodeFabric::Switch, 2, 2), 6);
  cluster.network.kind = NetworkKind::FatTree;
  cluster.network.nodes_per_leaf = 4;
  cluster.network.oversubscription = 2.0;
  const Topology topology(cluster);
  EXPECT_THAT(names(topology, 0, 7), ElementsAre("node 0 card 0 out", "node 3 card 1 in"));
  const Route far = topology.route(Rank(0), Rank(11));
  EXPECT_THAT(names(topology, 0, 11),
              ElementsAre("node 0 card 0 out", "leaf 0 up", "leaf 1 down", "node 5 card 1 in"));
  EXPECT_DOUBLE_EQ(topology.link(far[1].link).cost.bandwidth.value, 200e9);
  EXPECT_DOUBLE_EQ(topology.latency(far).value, 2e-6 + 4 * 0.5e-6);
}

TEST(Topology, MixedNodesKeepTheirOwnLinks) {
  Cluster cluster = cluster_of(node_type(NodeFabric::Switch, 2, 2), 2);
  NodeType slow = node_type(NodeFabric::PcieTree, 3, 1);
  slow.network_card.bandwidth = 10.0_GBps;
  cluster.groups.push_back({slow, 1});
  const Topology topology(cluster);
  EXPECT_EQ(topology.ranks(), 7);
  EXPECT_EQ(topology.node_of(Rank(6)), 2);
  EXPECT_DOUBLE_EQ(topology.bandwidth(topology.route(Rank(0), Rank(6))).value, 10e9);
  EXPECT_DOUBLE_EQ(topology.bandwidth(topology.route(Rank(0), Rank(3))).value, 50e9);
}

// No route visits a link twice; between two ports of a switch the way back uses other links.
TEST(Topology, RoutesAreSimpleAndDirected) {
  for (const NodeFabric fabric : {NodeFabric::Switch, NodeFabric::PcieTree, NodeFabric::Memory}) {
    const Topology topology(cluster_of(node_type(fabric, 4, 2), 3));
    for (int a = 0; a < 12; ++a) {
      for (int b = 0; b < 12; ++b) {
        if (a == b) continue;
        const Route there = topology.route(Rank(a), Rank(b));
        const Route back = topology.route(Rank(b), Rank(a));
        std::set<LinkId> links;
        for (const Hop& hop : there) links.insert(hop.link);
        EXPECT_EQ(links.size(), there.size());
        if (fabric != NodeFabric::Switch) continue;
        for (const Hop& hop : there) EXPECT_EQ(std::count(back.begin(), back.end(), hop), 0);
      }
    }
  }
}

}  // namespace
}  // namespace orrery::core
