// The work of bench/rivals/simgrid.cpp on this simulator's network: bench/simgrid.sh.
//
// Every flow is one of its own here: nothing is folded, equal flows are not merged and no collective
// is one object. A star of n hosts, 50 GB/s and 0.5 us on each host's link up and down.
//
//   usage: flow_sharing ring|a2a|a2aR HOSTS BYTES

#include <fmt/core.h>

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "bench/cpu_seconds.h"
#include "sim/network.h"

namespace {

using namespace orrery;
using bench::cpu_seconds;
using core::Seconds;

constexpr double kBandwidth = 50e9;
constexpr Seconds kLatency{2 * 500e-9};  // Up and down.

/// A star: link 2h is host h's to the switch, 2h + 1 the switch's to it.
class Star {
 public:
  explicit Star(int hosts)
      : hosts_(hosts),
        network_(std::vector<double>(2 * static_cast<std::size_t>(hosts), kBandwidth)),
        routes_(static_cast<std::size_t>(hosts) * static_cast<std::size_t>(hosts)) {}

  int hosts() const { return hosts_; }

  /// Starts a message at the present time.
  void send(int from, int to, double bytes) {
    std::vector<sim::LinkUse>& route =
        routes_[static_cast<std::size_t>(from) * static_cast<std::size_t>(hosts_) +
                static_cast<std::size_t>(to)];
    if (route.empty()) route = {{2 * from, 1.0}, {2 * to + 1, 1.0}};
    network_.start(route, bytes, std::nullopt);
    ++flows_;
  }

  /// Lets all messages arrive.
  void run() {
    now_ += kLatency;
    network_.settle(now_);
    while (const auto next = network_.next_end()) {
      now_ = *next;
      while (network_.next_end() && *network_.next_end() <= now_) network_.end_next();
      network_.settle(now_);
    }
  }

  Seconds now() const { return now_; }
  std::int64_t flows() const { return flows_; }

 private:
  int hosts_;
  sim::Network network_;
  std::vector<std::vector<sim::LinkUse>> routes_;  ///< By sender, then receiver; made when needed.
  Seconds now_;
  std::int64_t flows_ = 0;
};

void ring(Star& star, std::uint64_t bytes) {
  const auto n = static_cast<std::uint64_t>(star.hosts());
  for (std::uint64_t step = 0; step < 2 * (n - 1); ++step) {
    for (int i = 0; i < star.hosts(); ++i) {
      star.send(i, (i + 1) % star.hosts(), static_cast<double>(bytes / n));
    }
    star.run();
  }
}

void all_to_all(Star& star, std::uint64_t bytes, bool unequal) {
  const auto n = static_cast<std::uint64_t>(star.hosts());
  const std::uint64_t each = bytes / n;
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> factor(0.5, 1.5);
  for (int k = 1; k < star.hosts(); ++k) {
    for (int i = 0; i < star.hosts(); ++i) {
      const auto size =
          unequal ? static_cast<std::uint64_t>(static_cast<double>(each) * factor(random)) : each;
      star.send(i, (i + k) % star.hosts(), static_cast<double>(size));
    }
  }
  star.run();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: flow_sharing ring|a2a|a2aR HOSTS BYTES\n");
    return 2;
  }
  const std::string mode = argv[1];
  Star star(std::atoi(argv[2]));
  const std::uint64_t bytes = std::strtoull(argv[3], nullptr, 10);
  const double before = cpu_seconds();
  if (mode == "ring") {
    ring(star, bytes);
  } else {
    all_to_all(star, bytes, mode == "a2aR");
  }
  fmt::print("{} {} sim={:.6f} s flows={} cpu={:.6f} s\n", mode, star.hosts(), star.now().value,
             star.flows(), cpu_seconds() - before);
}
