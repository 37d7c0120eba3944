#pragma once
// The devices of a cluster of unequal nodes, as far as estimates tell them apart.

#include <vector>

#include "core/cluster.h"
#include "core/model.h"

namespace orrery::costmodel {

/// The device with the least matrix peak, given the least memory of all.
core::Device slowest_device(const core::Cluster&, core::DType precision);

/// Each kind of device once, by falling matrix peak.
std::vector<core::Device> device_kinds(const core::Cluster&, core::DType precision);

/// Ranks that share one CPU core where a node has fewer cores than ranks; 1 otherwise.
double ranks_per_core(const core::Cluster&);

}  // namespace orrery::costmodel
