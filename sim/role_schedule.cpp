#include "sim/role_schedule.h"

#include <set>

#include "core/error.h"
#include "core/lowering/access_order.h"

namespace orrery::sim {

using core::Buffer;
using core::BufferId;
using core::BufferScope;
using core::Call;
using core::CallWait;
using core::Instruction;
using core::View;

RoleSchedule::RoleSchedule(const core::Role& role) : role_(&role) {
  number_instructions();
  link_waits();
  place_buffers();
}

void RoleSchedule::number_instructions() {
  for (std::size_t c = 0; c < role_->step.size(); ++c) {
    call_begin_.push_back(static_cast<int>(call_of_.size()));
    for (const Instruction& i : role_->blocks[role_->step[c].block.index()].instructions) {
      queues_[static_cast<std::size_t>(i.stream)].push_back(static_cast<int>(call_of_.size()));
      call_of_.push_back(static_cast<int>(c));
    }
  }
}

/// Calls visit(waiting instruction, awaited instruction).
template <class Visit>
void RoleSchedule::for_each_wait(Visit visit) const {
  const int n = instructions();
  for (int flat = 0; flat < n; ++flat) {
    const int begin = call_begin_[static_cast<std::size_t>(call_of(flat))];
    for (const int other : at(flat).waits) visit(flat, begin + other);
  }
  for (std::size_t c = 0; c < role_->step.size(); ++c) {
    for (const CallWait& wait : role_->step[c].waits) {
      visit(call_begin_[c] + wait.instruction,
            call_begin_[static_cast<std::size_t>(wait.call)] + wait.other);
    }
  }
}

void RoleSchedule::link_waits() {
  const std::size_t n = call_of_.size();
  wait_counts_.assign(n, 0);
  successors_begin_.assign(n + 1, 0);
  for_each_wait([&](int waiting, int awaited) {
    ORRERY_CHECK(awaited >= 0 && awaited < waiting, "an instruction waits for a later one");
    ++wait_counts_[static_cast<std::size_t>(waiting)];
    ++successors_begin_[static_cast<std::size_t>(awaited) + 1];
  });
  for (std::size_t i = 0; i < n; ++i) successors_begin_[i + 1] += successors_begin_[i];
  successors_.resize(static_cast<std::size_t>(successors_begin_[n]));
  std::vector<int> next(successors_begin_.begin(), successors_begin_.end() - 1);
  for_each_wait([&](int waiting, int awaited) {
    int& slot = next[static_cast<std::size_t>(awaited)];
    successors_[static_cast<std::size_t>(slot++)] = waiting;
  });
}

std::vector<int> RoleSchedule::waits_of(int flat) const {
  std::vector<int> waits;
  for_each_wait([&](int waiting, int awaited) {
    if (waiting == flat) waits.push_back(awaited);
  });
  return waits;
}

void RoleSchedule::place_buffers() {
  std::vector<double> bytes;
  for (const Buffer& buffer : role_->buffers) {
    bytes.push_back(buffer.bytes().value);
    if (buffer.scope == BufferScope::Run) persistent_ += bytes.back();
  }
  allocates_.assign(call_of_.size(), 0.0);
  frees_.assign(call_of_.size(), 0.0);
  std::set<core::Instance> live;
  for (int flat = 0; flat < instructions(); ++flat) {
    const auto slot = static_cast<std::size_t>(flat);
    const Call& call = role_->step[static_cast<std::size_t>(call_of(flat))];
    const auto instance = [&](BufferId id) {
      return core::instance_of(*role_, id, call, call_of(flat));
    };
    for (const View& view : at(flat).writes) {
      if (role_->buffers[view.buffer.index()].scope == BufferScope::Run) continue;
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
