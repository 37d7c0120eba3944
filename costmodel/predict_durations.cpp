#include "costmodel/predict_durations.h"

#include <algorithm>
#include <map>
#include <string>
#include <variant>

#include "costmodel/compute_cost.h"

namespace orrery::costmodel {
namespace {

using DevicesByName = std::map<std::string, const core::Device*>;

// The different devices that run each role.
std::vector<DevicesByName> devices_by_role(const core::Program& program,
                                           const core::Cluster& cluster) {
  std::vector<DevicesByName> devices(program.roles.size());
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    const int node = cluster.node_of(static_cast<int>(rank));
    const core::Device& device = cluster.node_type(node).device;
    devices[program.ranks[rank].role.index()][device.name] = &device;
  }
  return devices;
}

core::Seconds slowest(const core::Compute& compute, const DevicesByName& devices,
                      core::DType precision) {
  core::Seconds longest;
  for (const auto& [name, device] : devices) {
    longest = std::max(longest, compute_time(compute, *device, precision));
  }
  return longest;
}

}  // namespace

core::Durations predict_durations(const core::Program& program, const core::Cluster& cluster,
                                  const core::Job& job) {
  core::Durations durations = core::zero_durations(program);
  const std::vector<DevicesByName> devices = devices_by_role(program, cluster);
  for (std::size_t role = 0; role < program.roles.size(); ++role) {
    const auto& blocks = program.roles[role].blocks;
    for (std::size_t block = 0; block < blocks.size(); ++block) {
      const auto& instructions = blocks[block].instructions;
      for (std::size_t i = 0; i < instructions.size(); ++i) {
        const auto* compute = std::get_if<core::Compute>(&instructions[i].operation);
        if (compute == nullptr) continue;
        durations.by_instruction[role][block][i] = slowest(*compute, devices[role], job.precision);
      }
    }
  }
  return durations;
}

}  // namespace orrery::costmodel
