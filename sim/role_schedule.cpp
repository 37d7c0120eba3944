#include "sim/role_schedule.h"

#include <set>

#include "core/access_order.h"

namespace orrery::sim {

using core::Buffer;
using core::BufferId;
using core::BufferScope;
using core::Instruction;
using core::View;

RoleSchedule::RoleSchedule(const core::Role& role) : FlatStep(role) {
  for (int flat = 0; flat < instructions(); ++flat) {
    wait_counts_.push_back(static_cast<int>(waits_of(flat).size()));
  }
  place_buffers();
}

void RoleSchedule::place_buffers() {
  std::vector<double> bytes;
  for (const Buffer& buffer : role().buffers) {
    bytes.push_back(buffer.bytes().value);
    if (buffer.scope == BufferScope::Run) persistent_ += bytes.back();
  }
  allocates_.assign(static_cast<std::size_t>(instructions()), 0.0);
  frees_.assign(static_cast<std::size_t>(instructions()), 0.0);
  std::set<core::Instance> live;
  for (int flat = 0; flat < instructions(); ++flat) {
    const auto slot = static_cast<std::size_t>(flat);
    const auto instance = [&](BufferId id) {
      return core::instance_of(role(), id, call(flat), call_of(flat));
    };
    for (const View& view : at(flat).writes) {
      if (role().buffers[view.buffer.index()].scope == BufferScope::Run) continue;
      if (live.insert(instance(view.buffer)).second) {
        allocates_[slot] += bytes[view.buffer.index()];
      }
    }
    for (const BufferId id : at(flat).frees) {
      if (live.erase(instance(id)) > 0) frees_[slot] += bytes[id.index()];
    }
  }
  for (const core::Instance& instance : live) unfreed_ += bytes[instance.first.index()];
}

}  // namespace orrery::sim
