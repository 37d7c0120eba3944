#pragma once
// Which links hang together through flows: the islands that a change of rates cannot leave. Islands
// join when a flow uses links of several; they fall apart only when looked at anew, now and then, so
// an island may be larger than it need be, never smaller.

#include <cstddef>
#include <vector>

namespace orrery::sim {

class LinkIslands {
 public:
  explicit LinkIslands(std::size_t links);

  /// A flow uses both links.
  void join(int a, int b);
  // A flow comes to, or goes from, the island of a link.
  void enter(int link) { ++flows_[name(link)]; }
  void leave(int link);

  int of(int link) const { return island_[static_cast<std::size_t>(link)]; }
  const std::vector<int>& links(int island) const {
    return links_[static_cast<std::size_t>(island)];
  }

  /// Whether so many flows have gone from an island that it is worth looking at anew.
  bool stale(int island) const;
  /// Makes each of its links an island again, and returns them: whoever calls joins them, and lets
  /// enter, the flows that there are.
  std::vector<int> dissolve(int island);

 private:
  std::size_t name(int link) const {
    return static_cast<std::size_t>(island_[static_cast<std::size_t>(link)]);
  }

  std::vector<int> island_;              // By link: named after one of its links.
  std::vector<std::vector<int>> links_;  // By name; empty for names that are not in use.
  std::vector<int> flows_, gone_;        // By name.
};

}  // namespace orrery::sim
