#include "core/network/collective_algorithm.h"

#include <gtest/gtest.h>

#include <map>

namespace orrery::core {
namespace {

using namespace literals;

// α = 3 us and β = 200 GB/s within a node; α = 2 + 2 · 0.5 us and β = 25 GB/s per card across.
Cluster cluster_of(int nodes, int devices, int cards) {
  NodeType type;
  type.devices = devices;
  type.device_link = {3.0_us, 200.0_GBps};
  type.network_cards = cards;
  type.network_card = {2.0_us, 25.0_GBps};
  Cluster cluster;
  cluster.groups = {{type, nodes}};
  cluster.network.kind = nodes == 1 ? NetworkKind::None : NetworkKind::Star;
  cluster.network.hop_latency = 0.5_us;
  return cluster;
}

std::vector<Rank> ranks(int n, int stride = 1) {
  std::vector<Rank> all;
  for (int i = 0; i < n; ++i) all.emplace_back(i * stride);
  return all;
}

double time_of(CollectiveMethod algorithm, CollectiveKind kind, const std::vector<Rank>& members,
               Bytes bytes, const Topology& topology) {
  return uncontended_time(collective_phases(algorithm, kind, members, bytes, topology), topology)
      .value;
}

constexpr double kRelative = 1e-12;

TEST(RingAllReduce, OneMemberIsFree) {
  const Topology topology(cluster_of(1, 8, 0));
  EXPECT_TRUE(collective_phases(CollectiveAlgorithm::Ring, CollectiveKind::AllReduce, ranks(1),
                                1.0_GB, topology)
                  .empty());
}

// T = 2(n−1)·α + 2(n−1)/n · S/β; reduce-scatter and all-gather half; broadcast (n−1)·α + S/β.
TEST(Ring, MatchesTheClosedFormWithinANode) {
  const Topology topology(cluster_of(1, 8, 0));
  for (const int n : {2, 3, 5, 8}) {
    const double ring = 2 * (n - 1) * 3e-6 + 2.0 * (n - 1) / n * 1e8 / 200e9;
    const auto time = [&](CollectiveKind kind) {
      return time_of(CollectiveAlgorithm::Ring, kind, ranks(n), 100.0_MB, topology);
    };
    EXPECT_NEAR(time(CollectiveKind::AllReduce), ring, kRelative * ring);
    EXPECT_NEAR(time(CollectiveKind::ReduceScatter), ring / 2, kRelative * ring);
    EXPECT_NEAR(time(CollectiveKind::AllGather), ring / 2, kRelative * ring);
    EXPECT_NEAR(time(CollectiveKind::Broadcast), (n - 1) * 3e-6 + 1e8 / 200e9, kRelative * ring);
  }
}

// One member per node: all edges cross, α = 3 us, β = 25 GB/s.
TEST(Ring, MatchesTheClosedFormAcrossNodes) {
  const Topology topology(cluster_of(4, 8, 8));
  const double expected = 6 * 3e-6 + 6.0 / 4 * 1e8 / 25e9;
  EXPECT_NEAR(time_of(CollectiveAlgorithm::Ring, CollectiveKind::AllReduce, ranks(4, 8), 100.0_MB,
                      topology),
              expected, kRelative * expected);
}

// 16 members on 2 nodes of 8 cards: every card carries 1/8 of an edge's 2·15/16·S, so the node's
// cards together are as fast as 8 · 25 GB/s; α is 3 us on every edge.
TEST(Ring, UsesAllCardsOfANode) {
  const Topology topology(cluster_of(2, 8, 8));
  const double expected = 30 * 3e-6 + 2.0 * 15 / 16 * 1e9 / (8 * 25e9);
  EXPECT_NEAR(
      time_of(CollectiveAlgorithm::Ring, CollectiveKind::AllReduce, ranks(16), 1.0_GB, topology),
      expected, kRelative * expected);
}

// 2 nodes of 2: in-node phases 2 · (1·α + 1/2·S/200 GB/s), across 2·α + 2·(1/2)·(S/2)/25 GB/s.
TEST(Hierarchical, MatchesTheClosedForm) {
  const Topology topology(cluster_of(2, 2, 2));
  const double expected = 2 * (3e-6 + 0.5e9 / 200e9) + 2 * 3e-6 + 0.5e9 / 25e9;
  EXPECT_NEAR(time_of(CollectiveAlgorithm::Hierarchical, CollectiveKind::AllReduce, ranks(4),
                      1.0_GB, topology),
              expected, kRelative * expected);
  const double half = expected / 2;
  EXPECT_NEAR(time_of(CollectiveAlgorithm::Hierarchical, CollectiveKind::ReduceScatter, ranks(4),
                      1.0_GB, topology),
              half, kRelative * half);
}

// 7 nodes, one member each: height 2, so 2·2·α; the busiest card sends 2·S.
TEST(Tree, IsLogarithmicAndSendsAtMostTwice) {
  const Topology topology(cluster_of(7, 1, 1));
  const double expected = 4 * 3e-6 + 2 * 1e6 / 25e9;
  EXPECT_NEAR(
      time_of(CollectiveAlgorithm::Tree, CollectiveKind::AllReduce, ranks(7), 1.0_MB, topology),
      expected, kRelative * expected);
}

// α + (n−1)/n · S/β.
TEST(Direct, AllToAllMatchesTheClosedForm) {
  const Topology topology(cluster_of(1, 8, 0));
  const double expected = 3e-6 + 7.0 / 8 * 1e9 / 200e9;
  EXPECT_NEAR(
      time_of(CollectiveAlgorithm::Direct, CollectiveKind::AllToAll, ranks(8), 1.0_GB, topology),
      expected, kRelative * expected);
}

// α + (n−1)·S/β, then n·S added up.
TEST(Exchange, MatchesTheClosedForm) {
  Cluster cluster = cluster_of(1, 8, 0);
  cluster.collectives.reduction = 50.0_GBps;
  const double expected = 3e-6 + 3 * 8e3 / 200e9 + 4 * 8e3 / 50e9;
  EXPECT_NEAR(time_of(CollectiveAlgorithm::Exchange, CollectiveKind::AllReduce, ranks(4), 8.0_KB,
                      Topology(cluster)),
              expected, kRelative * expected);
}

// A reduce-scatter of n parts of S/n adds up S: α + (n−1)/n · S/β + S/reduction. An all-reduce
// gathers as well, an all-gather adds nothing.
TEST(Direct, CountsWhatIsAddedUp) {
  Cluster cluster = cluster_of(1, 8, 0);
  cluster.collectives.reduction = 50.0_GBps;
  const Topology topology(cluster);
  const double moved = 3e-6 + 3.0 / 4 * 1e8 / 200e9;
  const double sums = 1e8 / 50e9;
  const auto time = [&](CollectiveKind kind) {
    return time_of(CollectiveAlgorithm::Direct, kind, ranks(4), 100.0_MB, topology);
  };
  EXPECT_NEAR(time(CollectiveKind::AllGather), moved, kRelative * moved);
  EXPECT_NEAR(time(CollectiveKind::ReduceScatter), moved + sums, kRelative * moved);
  EXPECT_NEAR(time(CollectiveKind::AllReduce), 2 * moved + sums, kRelative * moved);
}

// A library with every cost: 10 us once; LL128 a half of α within a node, a quarter between nodes,
// 1.1 bytes for one; two blocks of a ring more; trees at 1.2; sums in the switch in 25 us at 1.25.
Cluster nccl_cluster(int nodes, int devices, int cards) {
  Cluster cluster = cluster_of(nodes, devices, cards);
  Collectives& c = cluster.collectives;
  c.base = 10.0_us;
  c.ring_ends = 2.0;
  c.tree_wire = 1.2;
  c.ll128 = ProtocolCost{.step = 0.5, .network_step = 0.25, .wire = 1.1};
  c.in_switch = InSwitchCost{25.0_us, 1.25};
  return cluster;
}

// 8 members of a node: 10 us + 14 · 3 us / 2 + 1.1 · (14 + 2)/8 · S/β.
TEST(Ring, CountsWhatTheLibraryAdds) {
  const double expected = 10e-6 + 14 * 1.5e-6 + 1.1 * 16.0 / 8 * 1e6 / 200e9;
  EXPECT_NEAR(time_of({CollectiveAlgorithm::Ring, Protocol::LL128}, CollectiveKind::AllReduce,
                      ranks(8), 1.0_MB, Topology(nccl_cluster(1, 8, 0))),
              expected, kRelative * expected);
}

// 3 nodes, a member each, α = 3 us between them: height 1, four edges counted of S/2 each, at 1.2.
TEST(Tree, CountsWhatTheLibraryAdds) {
  const double expected = 10e-6 + 2 * 3e-6 + 1.2 * 4 * 0.5e6 / 25e9;
  EXPECT_NEAR(time_of(CollectiveAlgorithm::Tree, CollectiveKind::AllReduce, ranks(3), 1.0_MB,
                      Topology(nccl_cluster(3, 1, 1))),
              expected, kRelative * expected);
}

// 8 members: 10 us + 25 us + 1.25 · (1 + 1/8) · S/β. On two nodes each member's card carries both
// trees of S/8, an edge of S/16 each, which takes longer than the ports: 2 · 1.2 · S/16 / 25 GB/s.
TEST(InSwitch, MatchesTheClosedForm) {
  const double one = 35e-6 + 1.25 * 1.125 * 1e9 / 200e9;
  EXPECT_NEAR(time_of(CollectiveAlgorithm::InSwitch, CollectiveKind::AllReduce, ranks(8), 1.0_GB,
                      Topology(nccl_cluster(1, 8, 0))),
              one, kRelative * one);
  Cluster two = nccl_cluster(2, 8, 8);
  two.groups.front().type.device_link.bandwidth = 400.0_GBps;
  const double across = 35e-6 + 2 * 3e-6 + 2 * 1.2 * 1e9 / 16 / 25e9;
  EXPECT_NEAR(time_of(CollectiveAlgorithm::InSwitchTree, CollectiveKind::AllReduce, ranks(16),
                      1.0_GB, Topology(two)),
              across, kRelative * across);
}

// Two neighbours in a cube mesh have one link of six, a quad four rings, all eight six.
TEST(CubeMesh, RingsUseTheLinksThatClose) {
  Cluster cluster = cluster_of(1, 8, 0);
  cluster.groups.front().type.fabric = NodeFabric::CubeMesh;
  const Topology topology(cluster);
  for (const auto& [n, rings] : {std::pair(2, 1.0), std::pair(4, 4.0), std::pair(8, 6.0)}) {
    const double expected = 2 * (n - 1) * 3e-6 + 2.0 * (n - 1) / n * 1e9 / (200e9 * rings / 6);
    EXPECT_NEAR(
        time_of(CollectiveAlgorithm::Ring, CollectiveKind::AllReduce, ranks(n), 1.0_GB, topology),
        expected, kRelative * expected);
  }
}

// The engine's library depends on kind and bytes alone.
TEST(ChooseMethod, AllPairsExchangeUpToEightKibibytes) {
  Cluster cluster = cluster_of(2, 4, 1);
  cluster.collectives.library = CollectiveLibrary::AllPairs;
  const Topology topology(cluster);
  const auto chosen = [&](CollectiveKind kind, double bytes) {
    return choose_method(kind, ranks(8), Bytes(bytes), topology);
  };
  EXPECT_EQ(chosen(CollectiveKind::AllReduce, 8192), CollectiveAlgorithm::Exchange);
  EXPECT_EQ(chosen(CollectiveKind::AllReduce, 8196), CollectiveAlgorithm::Direct);
  for (const auto kind : {CollectiveKind::ReduceScatter, CollectiveKind::AllGather,
                          CollectiveKind::Broadcast, CollectiveKind::AllToAll}) {
    EXPECT_EQ(chosen(kind, 4), CollectiveAlgorithm::Direct);
  }
}

// Sums in the switch move (1 + 1/8)·1.25 = 1.41 S, a ring 2 S: the ring's LL128 steps win while
// latency counts, the switch beyond. A group of two nodes may use the switches with trees.
TEST(ChooseMethod, SumsInTheSwitchForLargeBuffers) {
  const Topology topology(nccl_cluster(1, 8, 0));
  const auto chosen = [&](Bytes bytes) {
    return choose_method(CollectiveKind::AllReduce, ranks(8), bytes, topology);
  };
  EXPECT_EQ(chosen(1.0_GB), CollectiveAlgorithm::InSwitch);
  EXPECT_EQ(chosen(1.0_KB).protocol, Protocol::LL128);
  EXPECT_EQ(choose_method(CollectiveKind::AllGather, ranks(8), 1.0_GB, topology),
            CollectiveAlgorithm::Ring);
  EXPECT_EQ(choose_method(CollectiveKind::AllReduce, ranks(16), 100.0_MB,
                          Topology(nccl_cluster(2, 8, 8))),
            CollectiveAlgorithm::InSwitchTree);
}

TEST(ChooseMethod, PrefersTreesForSmallAndRingsForLargeBuffers) {
  const Topology topology(cluster_of(32, 1, 1));
  const auto chosen = [&](Bytes bytes) {
    return choose_method(CollectiveKind::AllReduce, ranks(32), bytes, topology);
  };
  EXPECT_EQ(chosen(1.0_KB), CollectiveAlgorithm::Tree);
  EXPECT_EQ(chosen(1.0_GB), CollectiveAlgorithm::Ring);
  EXPECT_EQ(choose_method(CollectiveKind::AllToAll, ranks(32), 1.0_GB, topology),
            CollectiveAlgorithm::Direct);
}

// What each member sends and receives in all, by algorithm, on groups of any shape.
struct Shape {
  const char* what;
  std::vector<Rank> members;
};
std::vector<Shape> shapes() {
  return {{"one node", ranks(4)},
          {"two even nodes", ranks(8)},
          {"uneven nodes", {Rank(0), Rank(1), Rank(2), Rank(4), Rank(5), Rank(9), Rank(12)}},
          {"one a node", ranks(5, 4)},
          {"interleaved", {Rank(0), Rank(4), Rank(1), Rank(5), Rank(2), Rank(6)}}};
}

struct Traffic {
  std::map<Rank, double> sent, received;
  double total = 0;
};
Traffic traffic(const std::vector<CollectivePhase>& phases) {
  Traffic t;
  for (const CollectivePhase& phase : phases) {
    for (const Transfer& transfer : phase.transfers) {
      t.sent[transfer.from] += transfer.bytes.value;
      t.received[transfer.to] += transfer.bytes.value;
      t.total += transfer.bytes.value;
    }
  }
  return t;
}

// Lower bounds that any algorithm must meet: a reduce-scatter or all-gather moves (n−1)·S in all
// and an all-reduce 2(n−1)·S (one exchange n(n−1)·S); a member of an all-gather receives (n−1)/n·S, one of a broadcast S.
TEST(CollectivePhases, MoveWhatTheCollectiveNeeds) {
  const Topology topology(cluster_of(5, 4, 2));
  const double s = 1e6;
  for (const Shape& shape : shapes()) {
    const double n = static_cast<double>(shape.members.size());
    for (int a = 0; a < kCollectiveAlgorithms; ++a) {
      const auto algorithm = static_cast<CollectiveAlgorithm>(a);
      SCOPED_TRACE(std::string(shape.what) + " " + std::string(algorithm_name(algorithm)));
      const auto of = [&](CollectiveKind kind) {
        return traffic(collective_phases(algorithm, kind, shape.members, Bytes(s), topology));
      };
      const auto has = [&](CollectiveKind kind) {
        return supports(algorithm, kind, shape.members, topology);
      };
      if (has(CollectiveKind::AllReduce)) {
        const double times = algorithm == CollectiveAlgorithm::Exchange ? n : 2;
        EXPECT_NEAR(of(CollectiveKind::AllReduce).total, times * (n - 1) * s, 1e-9 * n * n * s);
      }
      if (has(CollectiveKind::AllGather)) {
        const Traffic t = of(CollectiveKind::AllGather);
        for (const Rank r : shape.members) {
          EXPECT_NEAR(t.received.at(r), (n - 1) / n * s, 1e-9 * s);
        }
      }
      if (has(CollectiveKind::ReduceScatter)) {
        EXPECT_NEAR(of(CollectiveKind::ReduceScatter).total, (n - 1) * s, 1e-9 * n * s);
      }
      if (has(CollectiveKind::Broadcast)) {
        const Traffic t = of(CollectiveKind::Broadcast);
        EXPECT_EQ(t.received.count(shape.members.front()), 0u);
        for (const Rank r : shape.members) {
          if (r == shape.members.front()) continue;
          EXPECT_NEAR(t.received.at(r), s, 1e-9 * s);
        }
      }
    }
  }
}

// Doubling β and dropping α halves the time.
TEST(CollectivePhases, ScaleWithTheLinks) {
  Cluster slow = cluster_of(2, 4, 4);
  slow.groups.front().type.device_link.latency = Seconds(0);
  slow.groups.front().type.network_card.latency = Seconds(0);
  slow.network.hop_latency = Seconds(0);
  Cluster fast = slow;
  fast.groups.front().type.device_link.bandwidth *= 2;
  fast.groups.front().type.network_card.bandwidth *= 2;
  for (const auto algorithm :
       {CollectiveAlgorithm::Ring, CollectiveAlgorithm::Tree, CollectiveAlgorithm::Hierarchical}) {
    const double t =
        time_of(algorithm, CollectiveKind::AllReduce, ranks(8), 1.0_GB, Topology(slow));
    EXPECT_DOUBLE_EQ(
        time_of(algorithm, CollectiveKind::AllReduce, ranks(8), 1.0_GB, Topology(fast)), t / 2);
  }
}

// Four sibling pairs over two cards a node: two share a card, so their transfers take twice as
// long.
TEST(Together, SiblingsShareTheirCards) {
  const Topology topology(cluster_of(2, 4, 2));
  std::vector<std::vector<CollectivePhase>> siblings;
  for (int d = 0; d < 4; ++d) {
    siblings.push_back(collective_phases(CollectiveAlgorithm::Ring, CollectiveKind::AllReduce,
                                         {Rank(d), Rank(4 + d)}, 1.0_GB, topology));
  }
  const double alone = 2 * 3e-6 + 1e9 / 25e9;
  EXPECT_NEAR(uncontended_time(siblings.front(), topology).value, alone, kRelative * alone);
  EXPECT_NEAR(uncontended_time(together(siblings), topology).value, 2 * 3e-6 + 2e9 / 25e9,
              kRelative * alone);
}

}  // namespace
}  // namespace orrery::core
