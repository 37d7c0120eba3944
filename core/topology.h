#pragma once
// The cluster as a directed graph: vertices are ranks and switches, edges are links with (α, β).
// Routes are shortest paths, fixed when the topology is built, so the same pair always takes the
// same links.

#include <memory>
#include <string>
#include <vector>

#include "core/cluster.h"
#include "core/ids.h"

namespace orrery::core {

struct Link {
  std::string name;  ///< "node 3 card 1 out".
  LinkCost cost;
};

/// Links of a route in order. Its latency is their sum, its bandwidth their minimum.
using Route = std::vector<LinkId>;

class Topology {
 public:
  explicit Topology(const Cluster&);
  ~Topology();
  Topology(Topology&&) noexcept;
  Topology& operator=(Topology&&) noexcept;

  int ranks() const;
  const std::vector<Link>& links() const;
  const Route& route(Rank from, Rank to) const;  ///< Empty when from == to.
  Seconds latency(const Route&) const;
  BytesPerSecond bandwidth(const Route&) const;
  int node_of(Rank) const;

 private:
  struct Graph;  // Boost.Graph stays out of this header: 1.5 s per file.
  std::unique_ptr<Graph> graph_;
};

}  // namespace orrery::core
