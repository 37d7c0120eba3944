#pragma once
// A cluster's network as it is in each step: links that are slow or have failed for some steps make
// another state of it.

#include <memory>
#include <vector>

#include "core/cluster.h"
#include "core/network/topology.h"
#include "core/perturbations.h"

namespace orrery::sim {

class Networks {
 public:
  /// Of steps 0 to `steps` - 1.
  explicit Networks(const core::Cluster&, const core::Perturbations& = {}, int steps = 1);

  const core::Topology& healthy() const { return *healthy_; }
  std::size_t states() const { return states_.size(); }
  const core::Topology& state(std::size_t s) const { return *states_[s]; }
  std::size_t state_of(int step) const { return state_of_[static_cast<std::size_t>(step)]; }

 private:
  std::unique_ptr<core::Topology> healthy_;
  std::vector<std::unique_ptr<core::Topology>> faulty_;
  std::vector<const core::Topology*> states_;
  std::vector<std::size_t> state_of_;  // By step.
};

}  // namespace orrery::sim
