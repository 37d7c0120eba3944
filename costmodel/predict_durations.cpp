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

/// The longest of `time_on(device)`.
template <class TimeOn>
core::Seconds slowest(const DevicesByName& devices, TimeOn time_on) {
  core::Seconds longest;
  for (const auto& [name, device] : devices) longest = std::max(longest, time_on(*device));
  return longest;
}

}  // namespace

core::Durations predict_durations(const core::Program& program, const core::Cluster& cluster,
                                  const core::Job& job) {
  core::Durations durations = core::zero_durations(program);
  core::Durations::ByInstruction issue = durations.by_instruction;
  bool any = false;
  const std::vector<DevicesByName> devices = devices_by_role(program, cluster);
  for (std::size_t role = 0; role < program.roles.size(); ++role) {
    const auto& blocks = program.roles[role].blocks;
    for (std::size_t block = 0; block < blocks.size(); ++block) {
      const auto& instructions = blocks[block].instructions;
      for (std::size_t i = 0; i < instructions.size(); ++i) {
        issue[role][block][i] = slowest(devices[role], [&](const core::Device& device) {
          return issue_time(instructions[i], device, job.precision);
        });
        any = any || issue[role][block][i] > core::Seconds(0);
        const auto* compute = std::get_if<core::Compute>(&instructions[i].operation);
        if (compute == nullptr) continue;
        durations.by_instruction[role][block][i] =
            slowest(devices[role], [&](const core::Device& device) {
              return compute_time(*compute, device, job.precision);
            });
      }
    }
  }
  if (any) durations.issue = std::move(issue);
  return durations;
}

}  // namespace orrery::costmodel
