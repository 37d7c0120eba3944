#include "sim/max_min.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace orrery::sim {
namespace {

/// Flows as rows of `uses`: flow f has uses[flow_begin[f] .. flow_begin[f+1]), each link once.
struct MaxMinProblem {
  std::vector<double> capacity;  // By link.
  std::vector<int> flow_begin = {0};
  std::vector<LinkUse> uses;
  std::vector<std::optional<double>> bound;  // By flow.

  int add_link(double link_capacity) {
    capacity.push_back(link_capacity);
    return static_cast<int>(capacity.size()) - 1;
  }
  void add_flow(const std::vector<LinkUse>& flow_uses, std::optional<double> flow_bound) {
    uses.insert(uses.end(), flow_uses.begin(), flow_uses.end());
    flow_begin.push_back(static_cast<int>(uses.size()));
    bound.push_back(flow_bound);
  }
};

std::vector<double> solved(const MaxMinProblem& p) {
  FairShares shares(p.capacity);
  std::vector<std::vector<LinkUse>> uses;
  for (std::size_t f = 0; f < p.bound.size(); ++f) {
    uses.emplace_back(p.uses.begin() + p.flow_begin[f], p.uses.begin() + p.flow_begin[f + 1]);
  }
  for (std::size_t f = 0; f < uses.size(); ++f) {
    shares.add(static_cast<int>(f), uses[f], p.bound[f]);
  }
  shares.solve();
  std::vector<double> rates;
  for (int f = 0; f < static_cast<int>(uses.size()); ++f) rates.push_back(shares.rate(f));
  return rates;
}

// The plain twin: raise all moving rates together by the largest step that breaks nothing, stop the
// flows on full links and at bounds, repeat. Dense, without heap or tolerance tricks.
std::vector<double> water_filling(const MaxMinProblem& p) {
  const std::size_t flows = p.bound.size();
  const std::size_t links = p.capacity.size();
  std::vector<std::vector<double>> w(links, std::vector<double>(flows, 0.0));
  for (std::size_t f = 0; f < flows; ++f) {
    for (int u = p.flow_begin[f]; u < p.flow_begin[f + 1]; ++u) {
      const LinkUse& use = p.uses[static_cast<std::size_t>(u)];
      w[static_cast<std::size_t>(use.link)][f] = use.weight;
    }
  }
  std::vector<double> x(flows, 0.0);
  std::vector<char> moving(flows, 1);
  for (;;) {
    double step = std::numeric_limits<double>::infinity();
    const auto slack = [&](std::size_t l) {
      double used = 0;
      for (std::size_t f = 0; f < flows; ++f) used += w[l][f] * x[f];
      return p.capacity[l] - used;
    };
    const auto pull = [&](std::size_t l) {
      double sum = 0;
      for (std::size_t f = 0; f < flows; ++f) sum += moving[f] ? w[l][f] : 0.0;
      return sum;
    };
    for (std::size_t l = 0; l < links; ++l) {
      if (pull(l) > 0) step = std::min(step, std::max(0.0, slack(l)) / pull(l));
    }
    for (std::size_t f = 0; f < flows; ++f) {
      if (moving[f] && p.bound[f]) step = std::min(step, *p.bound[f] - x[f]);
    }
    if (step == std::numeric_limits<double>::infinity()) return x;
    for (std::size_t f = 0; f < flows; ++f) x[f] += moving[f] ? step : 0.0;
    std::vector<char> stops(flows, 0);
    for (std::size_t l = 0; l < links; ++l) {
      if (slack(l) > 1e-12 * p.capacity[l]) continue;
      for (std::size_t f = 0; f < flows; ++f) {
        if (w[l][f] > 0) stops[f] = 1;
      }
    }
    for (std::size_t f = 0; f < flows; ++f) {
      if (p.bound[f] && x[f] >= *p.bound[f] * (1 - 1e-12)) stops[f] = 1;
      if (stops[f]) moving[f] = 0;
    }
  }
}

// C = 6; three flows: x = 2 each.
TEST(MaxMin, EqualFlowsShareALinkEvenly) {
  MaxMinProblem p;
  const int l = p.add_link(6);
  for (int i = 0; i < 3; ++i) p.add_flow({{l, 1}}, std::nullopt);
  EXPECT_EQ(solved(p), (std::vector<double>{2, 2, 2}));
}

// a + b ≤ 10, b + c ≤ 4: b = c = 2, a = 8 (Bertsekas and Gallager's line network).
TEST(MaxMin, AFlowTakesWhatOthersCannotUse) {
  MaxMinProblem p;
  const int first = p.add_link(10);
  const int second = p.add_link(4);
  p.add_flow({{first, 1}}, std::nullopt);
  p.add_flow({{first, 1}, {second, 1}}, std::nullopt);
  p.add_flow({{second, 1}}, std::nullopt);
  EXPECT_EQ(solved(p), (std::vector<double>{8, 2, 2}));
}

// C = 2 cores, three ranks, at most one core each, one of them at most 1/4: 0.25, 0.875, 0.875.
TEST(MaxMin, BoundsFreeCapacityForTheOthers) {
  MaxMinProblem p;
  const int cores = p.add_link(2);
  p.add_flow({{cores, 1}}, 0.25);
  p.add_flow({{cores, 1}}, 1.0);
  p.add_flow({{cores, 1}}, 1.0);
  EXPECT_EQ(solved(p), (std::vector<double>{0.25, 0.875, 0.875}));
}

// 2·x + y ≤ 9 with x = y: both 3.
TEST(MaxMin, WeightsScaleWhatAFlowTakes) {
  MaxMinProblem p;
  const int l = p.add_link(9);
  p.add_flow({{l, 2}}, std::nullopt);
  p.add_flow({{l, 1}}, std::nullopt);
  EXPECT_EQ(solved(p), (std::vector<double>{3, 3}));
}

MaxMinProblem random_problem(std::mt19937& random) {
  const auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  MaxMinProblem p;
  const int links = 4 + static_cast<int>(random() % 9);
  for (int l = 0; l < links; ++l) p.add_link(uniform(0, 1) < 0.3 ? 10.0 : uniform(1, 100));
  for (int f = 0; f < 24; ++f) {
    std::vector<LinkUse> uses;
    for (int l = 0; l < links; ++l) {
      if (random() % 3 == 0) uses.push_back({l, random() % 2 ? 1.0 : uniform(0.1, 4)});
    }
    std::optional<double> bound;
    if (uses.empty() || random() % 4 == 0) bound = uniform(0.1, 20);
    p.add_flow(uses, bound);
  }
  return p;
}

// The inequalities of the header: (1) capacities, (2) bounds, (3) a bottleneck for every flow.
void expect_max_min(const MaxMinProblem& p, const std::vector<double>& x) {
  constexpr double kRelative = 1e-9;
  std::vector<double> load(p.capacity.size(), 0.0);
  std::vector<double> fastest(p.capacity.size(), 0.0);
  for (std::size_t f = 0; f < x.size(); ++f) {
    for (int u = p.flow_begin[f]; u < p.flow_begin[f + 1]; ++u) {
      const LinkUse& use = p.uses[static_cast<std::size_t>(u)];
      const auto l = static_cast<std::size_t>(use.link);
      load[l] += use.weight * x[f];
      fastest[l] = std::max(fastest[l], x[f]);
    }
  }
  for (std::size_t l = 0; l < load.size(); ++l) {
    EXPECT_LE(load[l], p.capacity[l] * (1 + kRelative));
  }
  for (std::size_t f = 0; f < x.size(); ++f) {
    bool stopped = p.bound[f] && x[f] >= *p.bound[f] * (1 - kRelative);
    EXPECT_LE(x[f], p.bound[f].value_or(x[f]) * (1 + kRelative));
    for (int u = p.flow_begin[f]; u < p.flow_begin[f + 1]; ++u) {
      const auto l = static_cast<std::size_t>(p.uses[static_cast<std::size_t>(u)].link);
      stopped |= load[l] >= p.capacity[l] * (1 - kRelative) && x[f] >= fastest[l] * (1 - kRelative);
    }
    EXPECT_TRUE(stopped) << "flow " << f << " could grow";
  }
}

TEST(MaxMin, EqualsWaterFillingOnRandomSystems) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    const MaxMinProblem p = random_problem(random);
    const std::vector<double> x = solved(p);
    const std::vector<double> plain = water_filling(p);
    expect_max_min(p, x);
    for (std::size_t f = 0; f < x.size(); ++f) EXPECT_NEAR(x[f], plain[f], 1e-9 * plain[f]);
  }
}

// Flows come and go; each time only what is reached is shared anew, and must be what sharing all anew
// gives.
TEST(MaxMin, ChangesLeaveWhatSharingAllAnewWouldGive) {
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    const MaxMinProblem p = random_problem(random);
    FairShares shares(p.capacity);
    std::vector<std::vector<LinkUse>> uses;
    for (std::size_t f = 0; f < p.bound.size(); ++f) {
      uses.emplace_back(p.uses.begin() + p.flow_begin[f], p.uses.begin() + p.flow_begin[f + 1]);
    }
    std::vector<bool> present(uses.size(), false);
    for (int change = 0; change < 200; ++change) {
      // Now and then several at once.
      do {
        const std::size_t f = random() % uses.size();
        if (present[f]) {
          shares.remove(static_cast<int>(f));
        } else {
          shares.add(static_cast<int>(f), uses[f], p.bound[f]);
        }
        present[f] = !present[f];
      } while (random() % 3 == 0);
      shares.solve();
      MaxMinProblem now{.capacity = p.capacity, .uses = {}, .bound = {}};
      for (std::size_t f = 0; f < uses.size(); ++f) {
        if (present[f]) now.add_flow(uses[f], p.bound[f]);
      }
      const std::vector<double> plain = water_filling(now);
      std::size_t row = 0;
      for (std::size_t f = 0; f < uses.size(); ++f) {
        if (!present[f]) continue;
        ASSERT_NEAR(shares.rate(static_cast<int>(f)), plain[row], 1e-9 * plain[row])
            << "round " << round << " flow " << f;
        const std::optional<int> link = shares.bottleneck(static_cast<int>(f));
        if (link) {
          EXPECT_EQ(shares.rate(static_cast<int>(f)), shares.level(*link));
        }
        ++row;
      }
    }
  }
}

// 64 hosts on a star, everyone to everyone: 63 flows on each of 128 links, all equal to the last
// bit.
TEST(MaxMin, SymmetricFlowsGetIdenticalRates) {
  MaxMinProblem p;
  for (int l = 0; l < 128; ++l) p.add_link(50e9);
  for (int a = 0; a < 64; ++a) {
    for (int b = 0; b < 64; ++b) {
      if (a != b) p.add_flow({{a, 1}, {64 + b, 1}}, std::nullopt);
    }
  }
  for (const double rate : solved(p)) EXPECT_EQ(rate, 50e9 / 63);
}

}  // namespace
}  // namespace orrery::sim
