// Messages of one size and of many over stars and fat trees, one flow each, beside SimGrid 3.32 (models
// CM02, TCP-gamma and cross traffic off; bench/rivals/simgrid.cpp builds the same work). Every link
// carries 50 GB/s each way and adds 0.5 us; 32 hosts a leaf, whose links up are as many (full
// bisection) or a quarter (4:1).

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "core/network/topology.h"
#include "sim/network.h"

namespace orrery::sim {
namespace {

using namespace core::literals;
using core::Rank;
using core::Seconds;
using core::Topology;

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
constexpr double kRelative = 1e-6;

core::Cluster star(int hosts) {
  core::NodeType type;
  type.devices = 1;
  type.device_link = {1.0_us, 500.0_GBps};
  type.network_cards = 1;
  type.network_card = {0.0_us, 50.0_GBps};
  core::Cluster cluster;
  cluster.groups = {{type, hosts}};
  cluster.network.kind = core::NetworkKind::Star;
  cluster.network.hop_latency = 0.5_us;
  return cluster;
}

core::Cluster fat_tree(int hosts, double oversubscription) {
  core::Cluster cluster = star(hosts);
  cluster.network.kind = core::NetworkKind::FatTree;
  cluster.network.nodes_per_leaf = 32;
  cluster.network.oversubscription = oversubscription;
  return cluster;
}

struct Message {
  int from = 0, to = 0;
  double bytes = 0;
};

/// When the last of the messages arrives that are all sent at once.
double time_of(const std::vector<Message>& messages, const Topology& topology) {
  std::vector<double> capacities;
  for (const core::Link& link : topology.links()) capacities.push_back(link.cost.bandwidth.value);
  std::vector<std::vector<LinkUse>> uses(messages.size());
  std::vector<std::pair<Seconds, std::size_t>> starts;
  for (std::size_t m = 0; m < messages.size(); ++m) {
    const core::Route route = topology.route(Rank(messages[m].from), Rank(messages[m].to));
    for (const core::Hop& hop : route) uses[m].push_back({hop.link.value, hop.share});
    starts.emplace_back(topology.latency(route), m);
  }
  std::sort(starts.begin(), starts.end());
  Network network(capacities);
  Seconds now;
  auto next = starts.begin();
  while (next != starts.end() || network.next_end()) {
    const auto end = network.next_end();
    now = next != starts.end() && (!end || next->first <= *end) ? next->first : *end;
    while (network.next_end() && *network.next_end() <= now) network.end_next();
    for (; next != starts.end() && next->first == now; ++next) {
      network.start(uses[next->second], messages[next->second].bytes, std::nullopt);
    }
    network.settle(now);
  }
  return now.value;
}

/// Ring all-reduce of 1 GiB with a barrier after each of its 2(n−1) equal steps.
double ring_time(int hosts, const core::Cluster& cluster) {
  std::vector<Message> step;
  for (int i = 0; i < hosts; ++i) step.push_back({i, (i + 1) % hosts, std::floor(kGiB / hosts)});
  return 2 * (hosts - 1) * time_of(step, Topology(cluster));
}

/// All-to-all of 1 GiB a host, in equal parts or in parts of uniform(0.5, 1.5) of that drawn from
/// mt19937_64(1) by distance, then host.
std::vector<Message> all_to_all(int hosts, bool equal) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> factor(0.5, 1.5);
  const double part = std::floor(kGiB / hosts);
  std::vector<Message> messages;
  for (int k = 1; k < hosts; ++k) {
    for (int i = 0; i < hosts; ++i) {
      const double bytes = equal ? part : std::floor(part * factor(random));
      messages.push_back({i, (i + k) % hosts, bytes});
    }
  }
  return messages;
}

double all_to_all_time(int hosts, bool equal, const core::Cluster& cluster) {
  return time_of(all_to_all(hosts, equal), Topology(cluster));
}

void expect_agreement(double ours, double simgrid) {
  EXPECT_NEAR(ours, simgrid, kRelative * simgrid);
}

TEST(Networks, AgreeWithSimGridOnRings) {
  expect_agreement(ring_time(256, star(256)), 0.043291900800);
  expect_agreement(ring_time(1024, star(1024)), 0.044953729920);
  // A step ends with the message of four hops.
  expect_agreement(ring_time(1024, fat_tree(1024, 1)), 0.046999729920);
  // One message of each leaf crosses its links up: their number makes no difference.
  expect_agreement(ring_time(1024, fat_tree(1024, 4)), 0.046999729920);
}

TEST(Networks, AgreeWithSimGridOnEqualAllToAlls) {
  expect_agreement(all_to_all_time(64, true, star(64)), 0.021140292160);
  expect_agreement(all_to_all_time(256, true, star(256)), 0.021391950400);
  expect_agreement(all_to_all_time(128, true, fat_tree(128, 1)), 0.021308064320);
  // The links up are the bottleneck: 32 hosts send (n−32)/n of 1 GiB each over 8 of 50 GB/s.
  expect_agreement(all_to_all_time(64, true, fat_tree(64, 4)), 0.042951672960);
  expect_agreement(all_to_all_time(128, true, fat_tree(128, 4)), 0.064426509440);
}

TEST(Networks, AgreeWithSimGridOnUnequalAllToAlls) {
  expect_agreement(all_to_all_time(64, false, star(64)), 0.022899011040);
  expect_agreement(all_to_all_time(128, false, star(128)), 0.022736044540);
}

}  // namespace
}  // namespace orrery::sim
