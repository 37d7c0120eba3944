#include "sim/fold_choice.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/network/collective_algorithm.h"
#include "core/split_mix.h"
#include "sim/communication.h"

namespace orrery::sim {

using core::Cluster;
using core::Program;

namespace {

/// Whether ranks of a node take turns on its cores.
bool shares_cores(const Cluster& cluster) {
  return std::any_of(cluster.groups.begin(), cluster.groups.end(), [](const core::NodeGroup& g) {
    return g.type.device.kind == core::DeviceKind::Cpu && g.type.cores < g.type.devices;
  });
}

/// What perturbations make of ranks and links.
Properties properties_of(const Program& program, const core::Topology& topology,
                         const core::Perturbations& perturbations) {
  const auto bits = [](double value) {
    std::uint64_t same = 0;
    std::memcpy(&same, &value, sizeof same);
    return same;
  };
  Properties own;
  for (const std::size_t place : ring_places(program)) own.ranks.push_back(place);
  for (const core::Link& link : topology.links()) {
    own.links.push_back(
        core::mix(bits(link.cost.bandwidth.value) ^ static_cast<std::uint64_t>(link.kind)));
  }
  std::uint64_t number = 0;
  for (const core::Straggler& straggler : perturbations.stragglers) {
    // Stragglers that are equally slow in the same steps are alike.
    if (straggler.rank.index() >= own.ranks.size()) continue;  // The plan leaves it idle.
    std::uint64_t& rank = own.ranks[straggler.rank.index()];
    rank = core::mix(rank ^ bits(straggler.slowdown));
    rank = core::mix(rank ^ static_cast<std::uint64_t>(straggler.steps.first));
    rank = core::mix(rank ^ static_cast<std::uint64_t>(straggler.steps.last.value_or(-1)));
  }
  for (const core::BackgroundFlow& flow : perturbations.background) {
    ++number;
    for (const core::LinkLoad& load :
         core::link_loads({{flow.from, flow.to, core::Bytes(1)}}, topology)) {
      std::uint64_t& link = own.links[load.link.index()];
      link = core::mix(link ^ core::mix(number ^ bits(load.bytes.value)));
    }
  }
  return own;
}

std::optional<Fold> exact_fold(const Program& program, const Networks& networks,
                               const SimulateOptions& options) {
  const Fold every = every_rank(program);
  std::vector<std::unique_ptr<Communications>> plans;
  std::vector<Communications*> states;
  for (std::size_t s = 0; s < networks.states(); ++s) {
    plans.push_back(std::make_unique<Communications>(program, networks.healthy(), networks.state(s),
                                                     every, options.algorithm));
    states.push_back(plans.back().get());
  }
  const core::Perturbations& perturbations = options.perturbations;
  return folded_ranks(
      program,
      symmetry_of(program, states, properties_of(program, networks.healthy(), perturbations),
                  !perturbations.background.empty()));
}

}  // namespace

Fold fold_for(const Program& program, const Cluster& cluster, const Networks& networks,
              const SimulateOptions& options) {
  if (!options.folded || uses_servers(program) || options.perturbations.jitter) {
    return every_rank(program);
  }
  std::optional<Fold> fold;
  if (options.perturbations.empty() && networks.healthy().levels_alone() && !options.exact_links) {
    fold = folded_ranks(program, networks.healthy());
  } else if (!shares_cores(cluster)) {
    fold = exact_fold(program, networks, options);
  }
  return fold ? *std::move(fold) : every_rank(program);
}

}  // namespace orrery::sim
