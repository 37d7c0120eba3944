// memory_profile() of core/check/program_check.h.

#include <algorithm>
#include <map>
#include <utility>

#include "core/check/program_check.h"
#include "core/lowering/access_order.h"

namespace orrery::core {
namespace {

/// Live bytes by kind, and the largest total so far.
class LiveMemory {
 public:
  explicit LiveMemory(const Role& role) : role_(role) {
    for (const Buffer& buffer : role.buffers) {
      if (buffer.scope != BufferScope::Run) continue;
      by_kind_[buffer.kind] += buffer.bytes();
      total_ += buffer.bytes();
    }
    profile_.persistent = total_;
    note_peak("before the first instruction");
  }

  void allocate(Instance instance, const std::string& label) {
    if (!live_.insert({instance, true}).second) return;
    change(instance.first, 1.0);
    if (total_ > profile_.peak) note_peak(label);
  }
  void release(Instance instance) {
    if (live_.erase(instance) != 0) change(instance.first, -1.0);
  }
  void end_instruction() { profile_.after.push_back(total_); }
  MemoryProfile take() { return std::move(profile_); }

 private:
  void change(BufferId buffer, double sign) {
    const Bytes bytes = role_.buffers[buffer.index()].bytes() * sign;
    by_kind_[role_.buffers[buffer.index()].kind] += bytes;
    total_ += bytes;
  }
  void note_peak(const std::string& label) {
    profile_.peak = total_;
    profile_.peak_at = label;
    profile_.at_peak.assign(by_kind_.begin(), by_kind_.end());
    std::stable_sort(profile_.at_peak.begin(), profile_.at_peak.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
  }

  const Role& role_;
  std::map<Instance, bool> live_;
  std::map<BufferKind, Bytes> by_kind_;
  Bytes total_;
  MemoryProfile profile_;
};

bool fetches_ahead(const Instruction& instruction) {
  return std::holds_alternative<Receive>(instruction.operation) ||
         instruction.stream == Stream::Host;
}

void allocate_writes(LiveMemory& memory, const Role& role, const Instruction& instruction,
                     const Call& call, int call_index) {
  for (const View& view : instruction.writes) {
    if (role.buffers[view.buffer.index()].scope == BufferScope::Run) continue;
    memory.allocate(instance_of(role, view.buffer, call, call_index), instruction.label);
  }
}

}  // namespace

MemoryProfile memory_profile(const Role& role) {
  LiveMemory memory(role);
  const int calls = static_cast<int>(role.step.size());
  std::vector<std::vector<Instance>> sent(role.step.size());  // Freed by a call's sends.
  for (int c = 0; c < calls; ++c) {
    // What a call sent may wait for its receiver until the call after the next begins.
    if (c >= 2) {
      for (const Instance& instance : sent[static_cast<std::size_t>(c - 2)])
        memory.release(instance);
    }
    // What the next call receives or loads may arrive while this one computes.
    for (int ahead = c; ahead < std::min(c + 2, calls); ++ahead) {
      const Call& call = role.step[static_cast<std::size_t>(ahead)];
      for (const Instruction& instruction : role.blocks[call.block.index()].instructions) {
        if (fetches_ahead(instruction)) allocate_writes(memory, role, instruction, call, ahead);
      }
    }
    const Call& call = role.step[static_cast<std::size_t>(c)];
    for (const Instruction& instruction : role.blocks[call.block.index()].instructions) {
      allocate_writes(memory, role, instruction, call, c);
      const bool sends = std::holds_alternative<Send>(instruction.operation);
      for (const BufferId buffer : instruction.frees) {
        const Instance instance = instance_of(role, buffer, call, c);
        if (sends) {
          sent[static_cast<std::size_t>(c)].push_back(instance);
        } else {
          memory.release(instance);
        }
      }
      memory.end_instruction();
    }
  }
  return memory.take();
}

}  // namespace orrery::core
