#include "sim/link_islands.h"

#include <utility>

namespace orrery::sim {

LinkIslands::LinkIslands(std::size_t links)
    : island_(links), links_(links), flows_(links, 0), gone_(links, 0) {
  for (std::size_t l = 0; l < links; ++l) {
    island_[l] = static_cast<int>(l);
    links_[l] = {static_cast<int>(l)};
  }
}

void LinkIslands::join(int a, int b) {
  auto kept = static_cast<std::size_t>(of(a));
  auto lost = static_cast<std::size_t>(of(b));
  if (kept == lost) return;
  // Every link moves to a larger island at most log2(links) times.
  if (links_[kept].size() < links_[lost].size()) std::swap(kept, lost);
  for (const int l : links_[lost]) {
    island_[static_cast<std::size_t>(l)] = static_cast<int>(kept);
    links_[kept].push_back(l);
  }
  links_[lost].clear();
  flows_[kept] += std::exchange(flows_[lost], 0);
  gone_[kept] += std::exchange(gone_[lost], 0);
}

void LinkIslands::leave(int link) {
  --flows_[name(link)];
  ++gone_[name(link)];
}

bool LinkIslands::stale(int island) const {
  const auto i = static_cast<std::size_t>(island);
  // Looking anew costs some steps for each flow and link: as many flows have paid for them.
  constexpr int kFew = 64;
  return gone_[i] > kFew + flows_[i] + static_cast<int>(links_[i].size());
}

std::vector<int> LinkIslands::dissolve(int island) {
  const auto i = static_cast<std::size_t>(island);
  std::vector<int> links = std::exchange(links_[i], {});
  flows_[i] = gone_[i] = 0;
  for (const int l : links) {
    island_[static_cast<std::size_t>(l)] = l;
    links_[static_cast<std::size_t>(l)] = {l};
  }
  return links;
}

}  // namespace orrery::sim
