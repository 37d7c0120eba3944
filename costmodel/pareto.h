#pragma once
// The best plans of parts of a cluster: fewer devices, less money, more time.

#include <vector>

#include "core/cluster.h"
#include "core/job.h"
#include "core/model.h"
#include "costmodel/search.h"

namespace orrery::costmodel {

/// Sizes of the parts that are looked at, smallest first: the divisors of a node's devices, then
/// 2, 4, 8, ... nodes, and the largest number of whole nodes with at most `most` devices.
std::vector<int> part_sizes(const core::Cluster&, int most);

/// The best plan of a part of a cluster.
struct PartPlan {
  core::Cluster part;
  RankedPlan best;
};

/// Of each size of part_sizes() the best plan; sizes on which none fits are left out.
std::vector<PartPlan> best_of_parts(const core::Model&, const core::Cluster&, const core::Job&,
                                    const SearchOptions&, int most_devices);

/// Those that no other beats: another is as good in step time, devices and (where prices are known)
/// dollars a step, and better in one.
std::vector<PartPlan> pareto_front(std::vector<PartPlan>);

}  // namespace orrery::costmodel
