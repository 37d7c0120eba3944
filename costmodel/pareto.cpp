#include "costmodel/pareto.h"

#include <algorithm>

namespace orrery::costmodel {
namespace {

bool as_good(const Estimate& a, const Estimate& b) {
  return a.step <= b.step && a.devices <= b.devices &&
         a.dollars_per_step.value_or(0) <= b.dollars_per_step.value_or(0);
}

bool beats(const Estimate& a, const Estimate& b) { return as_good(a, b) && !as_good(b, a); }

}  // namespace

std::vector<int> part_sizes(const core::Cluster& cluster, int most) {
  const int node = cluster.node_type(0).devices;
  std::vector<int> sizes;
  for (int devices = 1; devices <= std::min(node, most); ++devices) {
    if (node % devices == 0) sizes.push_back(devices);
  }
  int whole = 0;  // Devices of the nodes so far.
  for (int count = 1; count <= cluster.nodes(); ++count) {
    whole += cluster.node_type(count - 1).devices;
    if (whole > most) break;
    const bool power = (count & (count - 1)) == 0;
    const bool last = count == cluster.nodes() || whole + cluster.node_type(count).devices > most;
    if (count > 1 && (power || last)) sizes.push_back(whole);
  }
  return sizes;
}

std::vector<PartPlan> best_of_parts(const core::Model& model, const core::Cluster& cluster,
                                    const core::Job& job, const SearchOptions& options,
                                    int most_devices) {
  SearchOptions one = options;
  one.keep = 1;
  one.refine = {};
  std::vector<PartPlan> best;
  for (const int devices : part_sizes(cluster, most_devices)) {
    core::Cluster part = core::part_of(cluster, devices);
    SearchResult found = search(model, part, job, one);
    if (!found.ranked.empty()) best.push_back({std::move(part), std::move(found.ranked.front())});
  }
  return best;
}

std::vector<PartPlan> pareto_front(std::vector<PartPlan> plans) {
  std::vector<PartPlan> front;
  for (const PartPlan& plan : plans) {
    const bool beaten = std::any_of(plans.begin(), plans.end(), [&](const PartPlan& other) {
      return beats(other.best.estimate, plan.best.estimate);
    });
    if (!beaten) front.push_back(plan);
  }
  return front;
}

}  // namespace orrery::costmodel
