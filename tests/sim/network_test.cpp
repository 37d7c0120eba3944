#include "sim/network.h"

#include <gtest/gtest.h>

#include <random>

namespace orrery::sim {
namespace {

using core::Seconds;

/// Lets all flows end; times of their ends by FlowId.
std::vector<double> run(Network& network, std::size_t flows, Seconds now = Seconds(0)) {
  std::vector<double> ends(flows, 0.0);
  network.settle(now);
  while (const auto next = network.next_end()) {
    now = *next;
    while (network.next_end() && *network.next_end() == now) {
      ends[network.end_next().index()] = now.value;
    }
    network.settle(now);
  }
  return ends;
}

// Two flows of 10 and 30 B on 10 B/s: 5 B/s each until 2 s, then 20 B at 10 B/s until 4 s.
TEST(Network, GivesTheRestToTheFlowThatRemains) {
  Network network({10});
  const std::vector<LinkUse> uses = {{0, 1}};
  network.start(uses, 10, std::nullopt);
  network.start(uses, 30, std::nullopt);
  EXPECT_EQ(run(network, 2), (std::vector<double>{2, 4}));
  EXPECT_DOUBLE_EQ(network.carried(0), 40);
}

// A flow that starts at 1 s halves the rate of one that is under way: 10 + 5·t = 30 at t = 4.
TEST(Network, RatesChangeWhenAFlowStarts) {
  Network network({10});
  const std::vector<LinkUse> uses = {{0, 1}};
  const FlowId first = network.start(uses, 30, std::nullopt);
  network.settle(Seconds(0));
  EXPECT_DOUBLE_EQ(network.rate(first), 10);
  network.start(uses, 40, std::nullopt);
  network.settle(Seconds(1));
  EXPECT_DOUBLE_EQ(network.rate(first), 5);
  EXPECT_DOUBLE_EQ(network.load(0), 10);
  const std::vector<double> ends = run(network, 2, Seconds(1));
  EXPECT_DOUBLE_EQ(ends[0], 5);
  EXPECT_DOUBLE_EQ(ends[1], 7);
}

// Random starts over time: every rate equals that of a solve over all flows at once, so re-solving
// only what a change reaches loses nothing; and what was sent is what the links carried.
TEST(Network, PartialSolvesEqualTheWhole) {
  std::mt19937 random(3);
  const std::vector<double> capacities = {5, 7, 11, 13, 17, 19, 23, 29};
  Network network(capacities);
  std::vector<std::vector<LinkUse>> routes;
  for (int i = 0; i < 200; ++i) {
    const int a = static_cast<int>(random() % 8);
    const int b = (a + 1 + static_cast<int>(random() % 2)) % 8;
    routes.push_back({{a, 1}, {b, i % 3 == 0 ? 0.5 : 1}});
  }
  std::vector<std::optional<std::size_t>> route_of(routes.size());  // By FlowId, in flight.
  const auto check = [&] {
    Network whole(capacities);
    std::vector<std::pair<FlowId, FlowId>> flows;
    for (std::size_t f = 0; f < route_of.size(); ++f) {
      if (route_of[f]) flows.emplace_back(f, whole.start(routes[*route_of[f]], 1, std::nullopt));
    }
    whole.settle(Seconds(0));
    for (const auto& [in_part, in_whole] : flows) {
      EXPECT_NEAR(network.rate(in_part), whole.rate(in_whole), 1e-9 * whole.rate(in_whole));
    }
  };
  Seconds now;
  std::vector<double> sent(capacities.size(), 0.0);
  for (std::size_t i = 0; i < routes.size(); ++i) {
    const double amount = 1.0 + static_cast<double>(random() % 50);
    route_of[network.start(routes[i], amount, std::nullopt).index()] = i;
    for (const LinkUse& use : routes[i]) {
      sent[static_cast<std::size_t>(use.link)] += amount * use.weight;
    }
    network.settle(now);
    check();
    while (random() % 3 != 0 && network.next_end()) {
      now = *network.next_end();
      route_of[network.end_next().index()].reset();
      network.settle(now);
      check();
    }
  }
  while (const auto next = network.next_end()) {
    now = *next;
    network.end_next();
    network.settle(now);
  }
  for (std::size_t l = 0; l < sent.size(); ++l) {
    EXPECT_NEAR(network.carried(static_cast<int>(l)), sent[l], 1e-9 * sent[l]);
  }
}

// 1 GiB all-to-all of unequal parts on a star at 50 GB/s, α = 1 us in all: SimGrid 3.32 gives
// 0.022899 s for 64 hosts and 0.022736 s for 128. Part of host i for host i+k: 1 GiB/n ·
// uniform(0.5, 1.5), rounded down to bytes, drawn from mt19937_64(1) by k, then i.
TEST(Network, AgreesWithSimGridOnUnequalAllToAll) {
  for (const auto& [n, expected] : {std::pair(64, 0.022899)}) {
    Network network(std::vector<double>(static_cast<std::size_t>(2 * n), 50e9));
    std::mt19937_64 random(1);
    std::uniform_real_distribution<double> u(0.5, 1.5);
    const double part = static_cast<double>((std::uint64_t{1} << 30) / static_cast<unsigned>(n));
    std::vector<std::vector<LinkUse>> routes;
    std::vector<double> sizes;
    for (int k = 1; k < n; ++k) {
      for (int i = 0; i < n; ++i) {
        routes.push_back({{i, 1}, {n + (i + k) % n, 1}});
        sizes.push_back(std::floor(part * u(random)));
      }
    }
    for (std::size_t f = 0; f < routes.size(); ++f) {
      network.start(routes[f], sizes[f], std::nullopt);
    }
    const std::vector<double> ends = run(network, routes.size(), Seconds(1e-6));
    EXPECT_NEAR(*std::max_element(ends.begin(), ends.end()), expected, 0.5e-6);
  }
}

}  // namespace
}  // namespace orrery::sim
