#include "core/network/shortest_ways.h"

#include <map>

namespace orrery::core {

ShortestWays::ShortestWays(int switches, const std::vector<Wire>& wires)
    : from_(static_cast<std::size_t>(switches)), to_(from_.size()) {
  for (const Wire& wire : wires) {
    from_[static_cast<std::size_t>(wire.from)].push_back(wire);
    to_[static_cast<std::size_t>(wire.to)].push_back(wire);
  }
}

std::vector<std::optional<int>> ShortestWays::distances(int to) const {
  std::vector<std::optional<int>> wires(from_.size());
  std::vector<int> reached = {to};
  wires[static_cast<std::size_t>(to)] = 0;
  for (std::size_t at = 0; at < reached.size(); ++at) {
    const auto s = static_cast<std::size_t>(reached[at]);
    for (const Wire& wire : to_[s]) {
      std::optional<int>& before = wires[static_cast<std::size_t>(wire.from)];
      if (before) continue;
      before = *wires[s] + 1;
      reached.push_back(wire.from);
    }
  }
  return wires;
}

bool ShortestWays::append(const family::SwitchPair& pair, Spreading spreading,
                          const std::vector<std::optional<int>>& distances, Route& route) const {
  if (!distances[static_cast<std::size_t>(pair.from)]) return false;
  std::map<int, double> here = {{pair.from, 1.0}};  // What comes to each switch of one distance.
  for (int left = *distances[static_cast<std::size_t>(pair.from)]; left > 0; --left) {
    std::map<int, double> next;
    for (const auto& [at, share] : here) {
      std::vector<Wire> on;
      for (const Wire& wire : from_[static_cast<std::size_t>(at)]) {
        if (distances[static_cast<std::size_t>(wire.to)] == left - 1) on.push_back(wire);
      }
      if (spreading == Spreading::Hash) {
        const int taken = family::hashed(pair.hash, left, static_cast<int>(on.size()));
        on = {on[static_cast<std::size_t>(taken)]};
      }
      const double each = share / static_cast<double>(on.size());
      for (const Wire& wire : on) {
        route.push_back({wire.link, each});
        next[wire.to] += each;
      }
    }
    here = std::move(next);
  }
  return true;
}

}  // namespace orrery::core
