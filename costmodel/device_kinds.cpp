#include "costmodel/device_kinds.h"

#include <algorithm>

#include "core/error.h"
#include "costmodel/compute_cost.h"

namespace orrery::costmodel {

core::Device slowest_device(const core::Cluster& cluster, core::DType precision) {
  ORRERY_CHECK(!cluster.groups.empty(), "a cluster without nodes");
  core::Device slowest = cluster.groups.front().type.device;
  core::Bytes memory = slowest.memory;
  for (const core::NodeGroup& group : cluster.groups) {
    const core::Device& device = group.type.device;
    memory = std::min(memory, device.memory);
    if (matrix_peak(device, precision) < matrix_peak(slowest, precision)) slowest = device;
  }
  slowest.memory = memory;
  return slowest;
}

std::vector<core::Device> device_kinds(const core::Cluster& cluster, core::DType precision) {
  std::vector<core::Device> kinds;
  for (const core::NodeGroup& group : cluster.groups) {
    const core::Device& device = group.type.device;
    const bool known = std::any_of(kinds.begin(), kinds.end(), [&](const core::Device& kind) {
      return kind.name == device.name;
    });
    if (!known) kinds.push_back(device);
  }
  std::stable_sort(kinds.begin(), kinds.end(), [&](const core::Device& a, const core::Device& b) {
    return matrix_peak(a, precision) > matrix_peak(b, precision);
  });
  return kinds;
}

double ranks_per_core(const core::Cluster& cluster) {
  double most = 1.0;
  for (const core::NodeGroup& group : cluster.groups) {
    const core::NodeType& type = group.type;
    if (type.device.kind != core::DeviceKind::Cpu || type.cores < 1) continue;
    most = std::max(most, static_cast<double>(type.devices) / type.cores);
  }
  return most;
}

}  // namespace orrery::costmodel
