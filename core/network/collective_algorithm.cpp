#include "core/network/collective_algorithm.h"

#include <algorithm>
#include <map>

#include "core/error.h"
#include "core/network/collective/algorithms.h"
#include "core/network/cube_mesh.h"

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

Seconds Steps::latency(Rank from, Rank to) const {
  const bool inside = topology_.node_of(from) == topology_.node_of(to);
  return topology_.latency(topology_.route(from, to)) * (inside ? cost_.step : cost_.network_step);
}

Bytes Steps::inside(Bytes bytes, const std::vector<Rank>& members) const {
  const bool mesh = topology_.fabric_of(topology_.node_of(members.front())) == NodeFabric::CubeMesh;
  if (!mesh) return wire(bytes);
  return wire(bytes) / cube_mesh_share(static_cast<int>(members.size()));
}

namespace {

GroupShape shape_of(const Nodes& nodes) {
  const std::size_t m = nodes.front().size();
  return {.one_node = nodes.size() == 1,
          .two_levels = nodes.size() > 1 && m > 1 &&
                        std::all_of(nodes.begin(), nodes.end(), [m](const std::vector<Rank>& node) {
                          return node.size() == m;
                        })};
}

bool supports(CollectiveAlgorithm algorithm, CollectiveKind kind, GroupShape shape,
              const Collectives& costs) {
  const bool reduces_all = kind == CollectiveKind::AllReduce;
  switch (algorithm) {
    case CollectiveAlgorithm::Ring:
      return kind != CollectiveKind::AllToAll;
    case CollectiveAlgorithm::Tree:
    case CollectiveAlgorithm::Exchange:
      return reduces_all;
    case CollectiveAlgorithm::Hierarchical:
      return kind != CollectiveKind::AllToAll && kind != CollectiveKind::Broadcast &&
             shape.two_levels;
    case CollectiveAlgorithm::Direct:
      return true;
    case CollectiveAlgorithm::InSwitch:
      return reduces_all && costs.in_switch && shape.one_node;
    case CollectiveAlgorithm::InSwitchTree:
      return reduces_all && costs.in_switch && shape.two_levels;
  }
  ORRERY_CHECK(false, "unknown algorithm");
}

struct Buffers {
  CollectiveKind kind;
  Bytes bytes;
};

std::vector<CollectivePhase> phases_of(CollectiveAlgorithm algorithm, Buffers buffers,
                                       const std::vector<Rank>& members, const Steps& steps) {
  const auto [kind, bytes] = buffers;
  const Nodes nodes = members_by_node(members, steps.topology());
  switch (algorithm) {
    case CollectiveAlgorithm::Ring:
      return ring(kind, nodes, bytes, steps);
    case CollectiveAlgorithm::Tree:
      return tree_all_reduce(nodes, bytes, steps);
    case CollectiveAlgorithm::Hierarchical:
      return hierarchical(kind, nodes, bytes, steps);
    case CollectiveAlgorithm::Direct:
      return direct(kind, members, bytes, steps);
    case CollectiveAlgorithm::Exchange:
      return exchange(members, bytes, steps);
    case CollectiveAlgorithm::InSwitch:
    case CollectiveAlgorithm::InSwitchTree:
      return in_switch(nodes, bytes, steps);
  }
  check_failed("CollectiveAlgorithm", "unknown algorithm", __FILE__, __LINE__);
}

}  // namespace
}  // namespace collective

GroupShape shape_of(const std::vector<Rank>& members, const Topology& topology) {
  ORRERY_CHECK(!members.empty(), "a collective without members");
  return collective::shape_of(collective::members_by_node(members, topology));
}

bool supports(CollectiveAlgorithm algorithm, CollectiveKind kind, const std::vector<Rank>& members,
              const Topology& topology) {
  return collective::supports(algorithm, kind, shape_of(members, topology), topology.collectives());
}

std::vector<CollectivePhase> collective_phases(CollectiveMethod method, CollectiveKind kind,
                                               const std::vector<Rank>& members, Bytes bytes,
                                               const Topology& topology) {
  if (members.size() < 2) return {};
  ORRERY_CHECK(supports(method.algorithm, kind, members, topology),
               "algorithm does not support the collective");
  const collective::Steps steps(topology, method.protocol);
  std::vector<CollectivePhase> phases =
      collective::phases_of(method.algorithm, {kind, bytes}, members, steps);
  phases.front().latency += topology.collectives().base;
  return phases;
}

CollectiveMethod choose_method(CollectiveKind kind, const std::vector<Rank>& members, Bytes bytes,
                               const Topology& topology) {
  const MethodList methods =
      methods_for(topology.collectives(), kind, bytes, shape_of(members, topology));
  return fastest(methods, [&](CollectiveMethod method) {
    return uncontended_time(collective_phases(method, kind, members, bytes, topology), topology);
  });
}

std::vector<LinkLoad> link_loads(const std::vector<Transfer>& transfers, const Topology& topology) {
  std::vector<LinkLoad> loads;
  Route route;
  for (const Transfer& t : transfers) {
    route.clear();
    topology.append_route(t.from, t.to, route);
    for (const Hop& hop : route) loads.push_back({hop.link, t.bytes * hop.share});
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
    sum += phase.latency + transfer_time(phase.transfers, topology) + phase.sums;
  }
  return sum;
}

std::vector<CollectivePhase> together(const std::vector<std::vector<CollectivePhase>>& parts) {
  std::vector<CollectivePhase> phases;
  for (const std::vector<CollectivePhase>& part : parts) {
    if (part.size() > phases.size()) phases.resize(part.size());
    for (std::size_t i = 0; i < part.size(); ++i) {
      phases[i].latency = std::max(phases[i].latency, part[i].latency);
      phases[i].sums = std::max(phases[i].sums, part[i].sums);
      phases[i].transfers.insert(phases[i].transfers.end(), part[i].transfers.begin(),
                                 part[i].transfers.end());
    }
  }
  return phases;
}

}  // namespace orrery::core
