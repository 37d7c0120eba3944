#pragma once
// What faster links would gain.

#include <string>
#include <vector>

#include "core/cluster.h"
#include "core/durations.h"
#include "core/program.h"
#include "sim/simulate.h"

namespace orrery::sim {

/// Links of one kind, or those that carry the same (sim/symmetry.h), and the ways back, all of them
/// twice as fast.
struct LinkGain {
  std::string name;         ///< "all cards", or that of one of them.
  bool whole_kind = false;  ///< All links of a kind.
  int links = 1;            ///< How many they are, both directions counted.
  core::Seconds full;       ///< How long one of them stopped some flow, over all steps, at most.
  core::Seconds saves;      ///< Of the last step's duration.
};

/// Of each kind of links, the largest gain first; then of at most `most` classes of links that save
/// something, likewise. Each is simulated with twice the bandwidth. A class of links that stop no flow
/// saves nothing; of the others sets are tried and halved, the best one first: links that save nothing
/// together are taken to save nothing one by one.
std::vector<LinkGain> link_gains(const core::Program&, const core::Durations&, const core::Cluster&,
                                 SimulateOptions, int most);

}  // namespace orrery::sim
