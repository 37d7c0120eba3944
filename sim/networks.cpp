#include "sim/networks.h"

#include <algorithm>

namespace orrery::sim {
namespace {

core::LinkFaults faults_in(int step, const core::Perturbations& perturbations) {
  core::LinkFaults faults;
  for (const core::SlowLink& slow : perturbations.slow_links) {
    if (!slow.steps.has(step)) continue;
    const auto [it, fresh] = faults.slowed.try_emplace(slow.link, slow.share);
    if (!fresh) it->second *= slow.share;
  }
  for (const core::FailedLink& failed : perturbations.failed_links) {
    if (failed.steps.has(step)) faults.failed.insert(failed.link);
  }
  return faults;
}

}  // namespace

Networks::Networks(const core::Cluster& cluster, const core::Perturbations& perturbations,
                   int steps)
    : healthy_(std::make_unique<core::Topology>(cluster)) {
  std::vector<core::LinkFaults> known;
  for (int step = 0; step < steps; ++step) {
    core::LinkFaults faults = faults_in(step, perturbations);
    const auto same = std::find(known.begin(), known.end(), faults);
    state_of_.push_back(static_cast<std::size_t>(same - known.begin()));
    if (same != known.end()) continue;
    known.push_back(faults);
    if (faults.slowed.empty() && faults.failed.empty()) {
      states_.push_back(healthy_.get());
      continue;
    }
    faulty_.push_back(std::make_unique<core::Topology>(cluster, std::move(faults)));
    states_.push_back(faulty_.back().get());
  }
}

}  // namespace orrery::sim
