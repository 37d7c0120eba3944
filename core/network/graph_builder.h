#pragma once
// Vertices and edges, as the families of nodes and networks add them (core/network/family/).

#include <optional>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/network/link.h"

namespace orrery::core {

// Heights of the kinds of vertices: a route climbs from both ends to where they meet.
inline constexpr int kRankLevel = 0;
inline constexpr int kFabricLevel = 1;
inline constexpr int kHostLevel = 2;
inline constexpr int kCardLevel = 3;
inline constexpr int kLeafLevel = 4;
inline constexpr int kSpineLevel = 5;
inline constexpr int kCoreLevel = 6;

class GraphBuilder {
 public:
  struct Vertex {
    int level = 0;
    int index =
        0;  ///< Of a card: which of its node. Of a rank: the card it uses. Of a switch: which.
  };
  struct Edge {
    int from = 0, to = 0;
    std::optional<LinkId> link;  ///< Absent for an attachment.
  };

  int vertex(int level, int index = 0) {
    vertices_.push_back({level, index});
    return static_cast<int>(vertices_.size()) - 1;
  }

  void attach(int from, int to) { edges_.push_back({from, to, std::nullopt}); }

  LinkId connect(int from, int to, const Link& link) {
    ORRERY_CHECK(link.cost.bandwidth.value > 0, "a link has no bandwidth");
    const LinkId id(links_.size());
    edges_.push_back({from, to, id});
    links_.push_back(link);
    return id;
  }

  const std::vector<Vertex>& vertices() const { return vertices_; }
  const std::vector<Edge>& edges() const { return edges_; }
  std::vector<Link> take_links() { return std::exchange(links_, {}); }

 private:
  std::vector<Vertex> vertices_;
  std::vector<Edge> edges_;
  std::vector<Link> links_;
};

}  // namespace orrery::core
