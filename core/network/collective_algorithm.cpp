#include "core/network/collective_algorithm.h"

#include <algorithm>
#include <map>
#include <optional>

#include "core/error.h"
#include "core/network/collective/algorithms.h"

namespace orrery::core {
namespace collective {

Nodes members_by_node(const std::vector<Rank>& members, const Topology& topology) {
  Nodes nodes;
  std::map<int, std::size_t> place;  // node -> index into `nodes`
  for (const Rank rank : members) {
    const auto [it, fresh] = place.try_emplace(topology.node_of(rank), nodes.size());
    if (fresh) nodes.emplace_back();
    nodes[it->second].push_back(rank);
  }
  return nodes;
}

int channels_of(const Nodes& nodes) {
  if (nodes.size() < 2) return 1;
  std::size_t least = nodes.front().size();
  for (const std::vector<Rank>& node : nodes) least = std::min(least, node.size());
  return static_cast<int>(least);
}

std::size_t entry_of(std::size_t members, int c, int channels) {
  return static_cast<std::size_t>(c) * members / static_cast<std::size_t>(channels);
}

std::vector<Transfer> merged(std::vector<Transfer> transfers) {
  std::stable_sort(transfers.begin(), transfers.end(), [](const Transfer& a, const Transfer& b) {
    return std::pair(a.from, a.to) < std::pair(b.from, b.to);
  });
  std::vector<Transfer> sums;
  for (const Transfer& t : transfers) {
    if (!sums.empty() && sums.back().from == t.from && sums.back().to == t.to) {
      sums.back().bytes += t.bytes;
    } else {
      sums.push_back(t);
    }
  }
  return sums;
}

Seconds route_latency(const Topology& topology, Rank from, Rank to) {
  return topology.latency(topology.route(from, to));
}

namespace {

/// At least two members on each of at least two nodes, everywhere as many.
bool two_even_levels(const Nodes& nodes) {
  const std::size_t m = nodes.front().size();
  return nodes.size() > 1 && m > 1 &&
         std::all_of(nodes.begin(), nodes.end(),
                     [m](const std::vector<Rank>& node) { return node.size() == m; });
}

bool supports(CollectiveAlgorithm algorithm, CollectiveKind kind, const Nodes& nodes) {
  switch (algorithm) {
    case CollectiveAlgorithm::Ring:
      return kind != CollectiveKind::AllToAll;
    case CollectiveAlgorithm::Tree:
      return kind == CollectiveKind::AllReduce;
    case CollectiveAlgorithm::Hierarchical:
      return kind != CollectiveKind::AllToAll && kind != CollectiveKind::Broadcast &&
             two_even_levels(nodes);
    case CollectiveAlgorithm::Direct:
      return true;
  }
  ORRERY_CHECK(false, "unknown algorithm");
}

}  // namespace
}  // namespace collective

std::string_view algorithm_name(CollectiveAlgorithm algorithm) {
  switch (algorithm) {
    case CollectiveAlgorithm::Ring:
      return "ring";
    case CollectiveAlgorithm::Tree:
      return "tree";
    case CollectiveAlgorithm::Hierarchical:
      return "hierarchical";
    case CollectiveAlgorithm::Direct:
      return "direct";
  }
  ORRERY_CHECK(false, "unknown algorithm");
}

bool supports(CollectiveAlgorithm algorithm, CollectiveKind kind, const std::vector<Rank>& members,
              const Topology& topology) {
  ORRERY_CHECK(!members.empty(), "a collective without members");
  return collective::supports(algorithm, kind, collective::members_by_node(members, topology));
}

std::vector<CollectivePhase> collective_phases(CollectiveAlgorithm algorithm, CollectiveKind kind,
                                               const std::vector<Rank>& members, Bytes bytes,
                                               const Topology& topology) {
  if (members.size() < 2) return {};
  const collective::Nodes nodes = collective::members_by_node(members, topology);
  ORRERY_CHECK(collective::supports(algorithm, kind, nodes),
               "algorithm does not support the collective");
  std::vector<CollectivePhase> phases;
  switch (algorithm) {
    case CollectiveAlgorithm::Ring:
      phases = collective::ring(kind, nodes, bytes, topology);
      break;
    case CollectiveAlgorithm::Tree:
      phases = collective::tree_all_reduce(nodes, bytes, topology);
      break;
    case CollectiveAlgorithm::Hierarchical:
      phases = collective::hierarchical(kind, nodes, bytes, topology);
      break;
    case CollectiveAlgorithm::Direct:
      phases = collective::direct(kind, members, bytes, topology);
      break;
  }
  return phases;
}

std::vector<CollectiveAlgorithm> algorithms_for(CollectiveKind kind,
                                                const std::vector<Rank>& members,
                                                const Topology& topology) {
  if (kind == CollectiveKind::AllToAll) return {CollectiveAlgorithm::Direct};
  std::vector<CollectiveAlgorithm> algorithms;
  for (const auto algorithm :
       {CollectiveAlgorithm::Ring, CollectiveAlgorithm::Tree, CollectiveAlgorithm::Hierarchical}) {
    if (supports(algorithm, kind, members, topology)) algorithms.push_back(algorithm);
  }
  return algorithms;
}

CollectiveAlgorithm choose_algorithm(CollectiveKind kind, const std::vector<Rank>& members,
                                     Bytes bytes, const Topology& topology) {
  const auto time = [&](CollectiveAlgorithm algorithm) {
    return uncontended_time(collective_phases(algorithm, kind, members, bytes, topology), topology);
  };
  const std::vector<CollectiveAlgorithm> all = algorithms_for(kind, members, topology);
  return *std::min_element(
      all.begin(), all.end(),
      [&](CollectiveAlgorithm a, CollectiveAlgorithm b) { return time(a) < time(b); });
}

std::vector<LinkLoad> link_loads(const std::vector<Transfer>& transfers, const Topology& topology) {
  std::vector<LinkLoad> loads;
  Route route;
  for (const Transfer& t : transfers) {
    route.clear();
    topology.append_route(t.from, t.to, route);
    for (const LinkId link : route) loads.push_back({link, t.bytes});
  }
  std::stable_sort(loads.begin(), loads.end(),
                   [](const LinkLoad& a, const LinkLoad& b) { return a.link < b.link; });
  std::vector<LinkLoad> sums;
  for (const LinkLoad& load : loads) {
    if (!sums.empty() && sums.back().link == load.link) {
      sums.back().bytes += load.bytes;
    } else {
      sums.push_back(load);
    }
  }
  return sums;
}

Seconds transfer_time(const std::vector<Transfer>& transfers, const Topology& topology) {
  Seconds longest;
  for (const LinkLoad& load : link_loads(transfers, topology)) {
    longest = std::max(longest, load.bytes / topology.link(load.link).cost.bandwidth);
  }
  return longest;
}

Seconds uncontended_time(const std::vector<CollectivePhase>& phases, const Topology& topology) {
  Seconds sum;
  for (const CollectivePhase& phase : phases) {
    sum += phase.latency + transfer_time(phase.transfers, topology);
  }
  return sum;
}

std::vector<CollectivePhase> together(const std::vector<std::vector<CollectivePhase>>& parts) {
  std::vector<CollectivePhase> phases;
  for (const std::vector<CollectivePhase>& part : parts) {
    if (part.size() > phases.size()) phases.resize(part.size());
    for (std::size_t i = 0; i < part.size(); ++i) {
      phases[i].latency = std::max(phases[i].latency, part[i].latency);
      phases[i].transfers.insert(phases[i].transfers.end(), part[i].transfers.begin(),
                                 part[i].transfers.end());
    }
  }
  return phases;
}

}  // namespace orrery::core
