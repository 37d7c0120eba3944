// The families of networks: which links a message takes, and with which share of it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "core/error.h"
#include "core/network/collective_algorithm.h"
#include "core/network/topology.h"

namespace orrery::core {
namespace {

using namespace literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Cluster cluster_of(int nodes, int devices = 1, int cards = 1) {
  NodeType type;
  type.devices = devices;
  type.device_link = {4.0_us, 300.0_GBps};
  type.network_cards = cards;
  type.network_card = {2.0_us, 50.0_GBps};
  Cluster cluster;
  cluster.groups = {{type, nodes}};
  cluster.network.hop_latency = 0.5_us;
  return cluster;
}

Cluster fat_tree(int nodes, int per_leaf, double oversubscription) {
  Cluster cluster = cluster_of(nodes);
  cluster.network.kind = NetworkKind::FatTree;
  cluster.network.nodes_per_leaf = per_leaf;
  cluster.network.oversubscription = oversubscription;
  return cluster;
}

/// 16 nodes in two pods of two leaves.
Cluster pods(Spreading spreading) {
  Cluster cluster = fat_tree(16, 4, 2.0);
  cluster.network.pods = Pods{2, 4.0};
  cluster.network.spreading = spreading;
  cluster.network.spines = Spines{2, 3};
  return cluster;
}

Cluster rails(CrossRail cross) {
  Cluster cluster = cluster_of(4, 4, 4);
  cluster.network.kind = NetworkKind::Rail;
  cluster.network.nodes_per_leaf = 2;
  cluster.network.cross_rail = cross;
  return cluster;
}

Cluster torus(std::vector<int> sides, Spreading spreading = Spreading::Even) {
  Cluster cluster = cluster_of(std::accumulate(sides.begin(), sides.end(), 1, std::multiplies<>()));
  cluster.network.kind = NetworkKind::Torus;
  cluster.network.spreading = spreading;
  cluster.network.torus = {std::move(sides), 1, {1.0_us, 20.0_GBps}};
  return cluster;
}

/// 5 groups of 4 switches of 2 nodes.
Cluster dragonfly(Spreading spreading = Spreading::Even) {
  Cluster cluster = cluster_of(40);
  cluster.network.kind = NetworkKind::Dragonfly;
  cluster.network.spreading = spreading;
  cluster.network.dragonfly = {2, 4, 5, 2, {0.5_us, 40.0_GBps}, {1.0_us, 30.0_GBps}};
  return cluster;
}

/// The fat tree with all its spines, each of the leaf's trunk's share.
Cluster spelled_out(const Cluster& tree, int spines) {
  Cluster cluster = tree;
  const int leaves = tree.nodes() / tree.network.nodes_per_leaf;
  SwitchGraph& graph = cluster.network.graph;
  cluster.network.kind = NetworkKind::Graph;
  for (int s = 0; s < leaves + spines; ++s) graph.switches.push_back("s" + std::to_string(s));
  const BytesPerSecond trunk = tree.groups[0].type.network_card.bandwidth *
                               tree.network.nodes_per_leaf / tree.network.oversubscription;
  for (int leaf = 0; leaf < leaves; ++leaf) {
    for (int s = leaves; s < leaves + spines; ++s) {
      const LinkCost wire{tree.network.hop_latency, trunk / spines};
      graph.wires.push_back({leaf, s, wire});
      graph.wires.push_back({s, leaf, wire});
    }
  }
  for (int node = 0; node < tree.nodes(); ++node) {
    graph.attached.push_back({node / tree.network.nodes_per_leaf});
  }
  return cluster;
}

std::vector<std::string> names(const Topology& topology, int from, int to) {
  std::vector<std::string> out;
  for (const Hop& hop : topology.route(Rank(from), Rank(to)))
    out.push_back(topology.name(hop.link));
  return out;
}

std::vector<Cluster> every_family() {
  std::vector<Cluster> all = {fat_tree(16, 4, 2.0),           pods(Spreading::Even),
                              pods(Spreading::Hash),          rails(CrossRail::Spine),
                              rails(CrossRail::WithinNode),   torus({4, 3, 2}),
                              torus({4, 6}, Spreading::Hash), dragonfly(),
                              dragonfly(Spreading::Hash),     spelled_out(fat_tree(16, 4, 2.0), 3)};
  Cluster hashed = all.back();
  hashed.network.spreading = Spreading::Hash;
  all.push_back(hashed);
  return all;
}

// What comes to a switch leaves it; the first and the last link carry all.
TEST(NetworkFamily, RoutesKeepWhatTheyCarry) {
  for (const Cluster& cluster : every_family()) {
    const Topology topology(cluster);
    for (int to = 1; to < topology.ranks(); ++to) {
      const Route route = topology.route(Rank(0), Rank(to));
      ASSERT_FALSE(route.empty());
      EXPECT_EQ(route.front().share, 1.0);
      EXPECT_EQ(route.back().share, 1.0);
      std::map<int, double> in, out;
      for (const Hop& hop : route) {
        out[topology.ends(hop.link).first] += hop.share;
        in[topology.ends(hop.link).second] += hop.share;
      }
      for (const auto& [vertex, share] : in) {
        if (out.count(vertex) == 0) continue;
        EXPECT_NEAR(out.at(vertex), share, 1e-12);
      }
    }
  }
}

// No link is left out: over all pairs every link between switches carries something.
TEST(NetworkFamily, EveryLinkIsUsed) {
  for (const Cluster& cluster : every_family()) {
    if (cluster.network.spreading == Spreading::Hash) continue;
    if (cluster.network.cross_rail == CrossRail::WithinNode) continue;  // Rails need no spine.
    const Topology topology(cluster);
    std::set<LinkId> used;
    for (int a = 0; a < topology.ranks(); ++a) {
      for (int b = 0; b < topology.ranks(); ++b) {
        for (const Hop& hop : topology.route(Rank(a), Rank(b))) used.insert(hop.link);
      }
    }
    const auto ports = [](const Link& link) {
      return link.kind == LinkKind::PortOut || link.kind == LinkKind::PortIn;
    };
    for (std::size_t l = 0; l < topology.links().size(); ++l) {
      if (cluster.groups[0].type.devices == 1 && ports(topology.links()[l])) continue;
      EXPECT_EQ(used.count(LinkId(l)), 1U) << topology.name(LinkId(l));
    }
  }
}

// A leaf: 4 · 50 / 2 = 100 GB/s; a pod: 2 · 100 / 4 = 50 GB/s; six links of 0.5 us between pods.
TEST(FatTree, PodsShareATrunk) {
  const Topology topology(pods(Spreading::Even));
  EXPECT_THAT(names(topology, 0, 7),
              ElementsAre("node 0 card 0 out", "leaf 0 up", "leaf 1 down", "node 7 card 0 in"));
  EXPECT_THAT(names(topology, 0, 8), ElementsAre("node 0 card 0 out", "leaf 0 up", "pod 0 up",
                                                 "pod 1 down", "leaf 2 down", "node 8 card 0 in"));
  const auto bandwidth = [&](const char* name) {
    return topology.link(*topology.find_link(name)).cost.bandwidth.value;
  };
  EXPECT_DOUBLE_EQ(bandwidth("leaf 0 up"), 100e9);
  EXPECT_DOUBLE_EQ(bandwidth("pod 1 down"), 50e9);
  EXPECT_DOUBLE_EQ(topology.latency(topology.route(Rank(0), Rank(8))).value, 2e-6 + 6 * 0.5e-6);
}

// Of 2 spines with 3 cores each a message takes one, the same on both sides; the trunk's capacity is
// divided among them. Over many pairs no way has more than twice its part.
TEST(FatTree, AHashPicksOneWay) {
  const Topology topology(pods(Spreading::Hash));
  std::map<LinkId, int> taken;
  for (int a = 0; a < 8; ++a) {
    for (int b = 8; b < 16; ++b) {
      const Route route = topology.route(Rank(a), Rank(b));
      ASSERT_EQ(route.size(), 6U);
      EXPECT_EQ(topology.link(route[1].link).index, topology.link(route[4].link).index);
      EXPECT_EQ(topology.link(route[2].link).index, topology.link(route[3].link).index);
      ++taken[route[2].link];
    }
  }
  EXPECT_EQ(taken.size(), 6U);
  for (const auto& [link, pairs] : taken) {
    EXPECT_LE(pairs, 2 * 64 / 6);
    EXPECT_DOUBLE_EQ(topology.link(link).cost.bandwidth.value, 50e9 / 6);
  }
}

std::vector<Transfer> some_traffic(int ranks, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Transfer> traffic;
  for (int i = 0; i < 60; ++i) {
    const int a = static_cast<int>(random() % static_cast<unsigned>(ranks));
    const int b = static_cast<int>(random() % static_cast<unsigned>(ranks));
    if (a != b)
      traffic.push_back({Rank(a), Rank(b), Bytes(static_cast<double>(1 + random() % 1000000))});
  }
  return traffic;
}

// Under even spreading all spines together are one: max over links of bytes / β is the same.
TEST(FatTree, OneSpineStandsForAll) {
  const Cluster tree = fat_tree(16, 4, 3.0);
  const Topology folded(tree);
  for (const int spines : {1, 3, 8}) {
    const Topology whole(spelled_out(tree, spines));
    for (unsigned seed = 0; seed < 20; ++seed) {
      const std::vector<Transfer> traffic = some_traffic(16, seed);
      const double t = transfer_time(traffic, folded).value;
      EXPECT_NEAR(transfer_time(traffic, whole).value, t, 1e-12 * t);
    }
    const double alpha = folded.latency(folded.route(Rank(0), Rank(15))).value;
    EXPECT_NEAR(whole.latency(whole.route(Rank(0), Rank(15))).value, alpha, 1e-12 * alpha);
  }
}

// Metamorphic: what nodes are called changes nothing.
TEST(SwitchGraph, RenumberingNodesChangesNothing) {
  const Cluster before = spelled_out(fat_tree(16, 4, 3.0), 3);
  std::mt19937 random(5);
  for (int round = 0; round < 10; ++round) {
    std::vector<int> called(16);
    std::iota(called.begin(), called.end(), 0);
    std::shuffle(called.begin(), called.end(), random);
    Cluster after = before;
    for (std::size_t node = 0; node < called.size(); ++node) {
      after.network.graph.attached[static_cast<std::size_t>(called[node])] =
          before.network.graph.attached[node];
    }
    std::vector<Transfer> traffic = some_traffic(16, static_cast<unsigned>(round));
    const double t = transfer_time(traffic, Topology(before)).value;
    for (Transfer& transfer : traffic) {
      transfer.from = Rank(called[transfer.from.index()]);
      transfer.to = Rank(called[transfer.to.index()]);
    }
    EXPECT_NEAR(transfer_time(traffic, Topology(after)).value, t, 1e-12 * t);
  }
}

TEST(Rails, MessagesOfARailStayBelowTheSpine) {
  const Topology spine(rails(CrossRail::Spine));
  EXPECT_THAT(names(spine, 1, 5), ElementsAre("node 0 card 1 out", "node 1 card 1 in"));
  EXPECT_THAT(names(spine, 1, 6), ElementsAre("node 0 card 1 out", "leaf 0 rail 1 up",
                                              "leaf 0 rail 2 down", "node 1 card 2 in"));
  EXPECT_THAT(names(spine, 1, 9), ElementsAre("node 0 card 1 out", "leaf 0 rail 1 up",
                                              "leaf 1 rail 1 down", "node 2 card 1 in"));
  // One card of each of two nodes: 2 · 50 GB/s.
  EXPECT_DOUBLE_EQ(spine.link(*spine.find_link("leaf 0 rail 1 up")).cost.bandwidth.value, 100e9);
  const Topology within(rails(CrossRail::WithinNode));
  EXPECT_THAT(names(within, 1, 6), ElementsAre("node 0 device 1 out", "node 0 device 2 in",
                                               "node 0 card 2 out", "node 1 card 2 in"));
}

// Sides 5 and 4, node = x + 5·y. One wire back along x from 0 to 4; two wires along y both ways, half
// of the bytes each.
TEST(Torus, GoesTheShorterWayRound) {
  const Topology topology(torus({5, 4}));
  EXPECT_THAT(names(topology, 0, 4),
              ElementsAre("node 0 card 0 out", "switch 0 to 4", "node 4 card 0 in"));
  const Route route = topology.route(Rank(0), Rank(14));
  ASSERT_EQ(route.size(), 7U);
  EXPECT_THAT(names(topology, 0, 14),
              ElementsAre("node 0 card 0 out", "switch 0 to 4", "switch 4 to 9", "switch 9 to 14",
                          "switch 4 to 19", "switch 19 to 14", "node 14 card 0 in"));
  for (std::size_t i = 2; i < 6; ++i) EXPECT_EQ(route[i].share, 0.5);
  // α: both cards, and three wires of 1 us whichever way.
  EXPECT_NEAR(topology.latency(route).value, 2e-6 + 2 * 0.5e-6 + 3e-6, 1e-18);
}

// Moved along both sides, a torus is itself.
TEST(Torus, IsTheSameFromEveryNode) {
  const Topology topology(torus({5, 4}));
  const auto moved = [](Rank r) { return Rank((r.value + 2) % 5 + 5 * ((r.value / 5 + 3) % 4)); };
  for (unsigned seed = 0; seed < 10; ++seed) {
    std::vector<Transfer> traffic = some_traffic(20, seed);
    const double t = transfer_time(traffic, topology).value;
    for (Transfer& transfer : traffic)
      transfer = {moved(transfer.from), moved(transfer.to), transfer.bytes};
    EXPECT_NEAR(transfer_time(traffic, topology).value, t, 1e-12 * t);
  }
}

// A wire within the group, one between groups, one within the other; both wires between two groups
// carry half.
TEST(Dragonfly, TakesAtMostThreeWires) {
  const Topology topology(dragonfly());
  EXPECT_THAT(names(topology, 0, 2),
              ElementsAre("node 0 card 0 out", "switch 0 to 1", "node 2 card 0 in"));
  for (int to = 8; to < 40; ++to) {
    double between = 0;
    double wires = 0;
    for (const Hop& hop : topology.route(Rank(0), Rank(to))) {
      const Link& link = topology.link(hop.link);
      if (link.kind != LinkKind::Wire) continue;
      wires += hop.share;
      if (link.place / 4 == link.to / 4) continue;
      EXPECT_EQ(hop.share, 0.5);
      between += hop.share;
    }
    EXPECT_DOUBLE_EQ(between, 1.0);
    EXPECT_LE(wires, 3.0);
  }
}

// Two ways of two wires, one of them doubled: at the first switch three wires lead on, so the doubled
// way carries 2/3.
TEST(SwitchGraph, DividesAtEverySwitch) {
  Cluster cluster = cluster_of(2);
  cluster.network.kind = NetworkKind::Graph;
  SwitchGraph& graph = cluster.network.graph;
  graph.switches = {"a", "b", "c", "d"};
  graph.attached = {{0}, {3}};
  const LinkCost wire{1.0_us, 10.0_GBps};
  graph.wires = {{0, 1, wire}, {0, 1, wire}, {0, 2, wire}, {1, 3, wire},
                 {2, 3, wire}, {3, 2, wire}, {2, 0, wire}};
  const Topology topology(cluster);
  std::map<std::string, double> share;
  for (const Hop& hop : topology.route(Rank(0), Rank(1)))
    share[topology.name(hop.link)] = hop.share;
  EXPECT_DOUBLE_EQ(share.at("a to b"), 1.0 / 3);
  EXPECT_DOUBLE_EQ(share.at("a to b #2"), 1.0 / 3);
  EXPECT_DOUBLE_EQ(share.at("b to d"), 2.0 / 3);
  EXPECT_DOUBLE_EQ(share.at("c to d"), 1.0 / 3);
  // Back there is one way.
  EXPECT_THAT(names(topology, 1, 0),
              ElementsAre("node 1 card 0 out", "d to c", "c to a", "node 0 card 0 in"));
  // min β / share: b to d carries 2/3 of what is sent.
  EXPECT_DOUBLE_EQ(topology.bandwidth(topology.route(Rank(0), Rank(1))).value, 15e9);
}

// On a ring of four, the way round is what is left of a wire that failed; without a card nothing is.
TEST(LinkFaults, MessagesGoAround) {
  const Cluster cluster = torus({4});
  const Topology whole(cluster);
  const auto without = [&](const char* name) {
    return Topology(cluster, {{}, {*whole.find_link(name)}});
  };
  EXPECT_THAT(names(without("switch 0 to 1"), 0, 1),
              ElementsAre("node 0 card 0 out", "switch 0 to 3", "switch 3 to 2", "switch 2 to 1",
                          "node 1 card 0 in"));
  EXPECT_EQ(names(without("switch 0 to 1"), 1, 0), names(whole, 1, 0));
  const Topology cut = without("node 0 card 0 out");
  try {
    cut.route(Rank(0), Rank(1));
    FAIL() << "there is no way";
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no way is left from rank 0 to 1"));
  }
}

TEST(LinkFaults, SlowLinksKeepAShare) {
  const Cluster cluster = torus({4});
  const LinkId link = *Topology(cluster).find_link("switch 0 to 1");
  const Topology slow(cluster, {{{link, 0.25}}, {}});
  EXPECT_DOUBLE_EQ(slow.link(link).cost.bandwidth.value, 5e9);
}

// Devices 0, 1 behind one PCIe switch, 2, 3 behind another.
TEST(PcieTree, SwitchesShareTheirWaysUp) {
  Cluster cluster = cluster_of(1, 4, 1);
  cluster.groups[0].type.fabric = NodeFabric::PcieTree;
  cluster.groups[0].type.devices_per_switch = 2;
  const Topology topology(cluster);
  EXPECT_THAT(names(topology, 0, 1), ElementsAre("node 0 device 0 out", "node 0 device 1 in"));
  EXPECT_THAT(names(topology, 0, 3), ElementsAre("node 0 device 0 out", "node 0 shared up",
                                                 "node 0 shared down #2", "node 0 device 3 in"));
}

}  // namespace
}  // namespace orrery::core
