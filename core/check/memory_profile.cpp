#include "core/check/memory_profile.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/access_order.h"
#include "core/lowering/message_bounds.h"

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

/// A role's step in program order, and when what it fetches and sends comes and goes: fetched
/// buffers may fill as soon as what their instruction waits for has ended, sent ones may wait for
/// their receiver until an instruction starts that waits for the sending.
class Walk {
 public:
  explicit Walk(const Role& role) : role_(role), memory_(role) {
    for (int c = 0; c < static_cast<int>(role.step.size()); ++c) {
      base_.push_back(static_cast<int>(places_.size()));
      const Call& call = role.step[static_cast<std::size_t>(c)];
      for (const Instruction& instruction : role.blocks[call.block.index()].instructions) {
        places_.push_back({c, &instruction});
      }
    }
    fetched_after_.resize(places_.size() + 1);
    received_before_.resize(places_.size());
    for (int c = 0; c < static_cast<int>(role.step.size()); ++c) place_messages(c);
  }

  MemoryProfile run() {
    fetch(0);
    for (std::size_t at = 0; at < places_.size(); ++at) {
      for (const int sender : received_before_[at]) release_frees(places_[index(sender)]);
      const Place& place = places_[at];
      allocate_writes(place);
      if (!std::holds_alternative<Send>(place.instruction->operation)) release_frees(place);
      fetch(at + 1);
      memory_.end_instruction();
    }
    return memory_.take();
  }

 private:
  struct Place {
    int call = 0;
    const Instruction* instruction = nullptr;
  };

  static std::size_t index(int position) { return static_cast<std::size_t>(position); }

  /// The instruction's waits, as positions in the step.
  std::vector<int> waits_of(int call, int i) const {
    std::vector<int> waits;
    const int base = base_[index(call)];
    for (const int wait : places_[index(base + i)].instruction->waits) waits.push_back(base + wait);
    for (const CallWait& wait : role_.step[index(call)].waits) {
      if (wait.instruction == i) waits.push_back(base_[index(wait.call)] + wait.other);
    }
    return waits;
  }

  void place_messages(int call) {
    const Block& block = role_.blocks[role_.step[index(call)].block.index()];
    for (int i = 0; i < static_cast<int>(block.instructions.size()); ++i) {
      const int at = base_[index(call)] + i;
      const Instruction& instruction = block.instructions[index(i)];
      if (!fetches_ahead(instruction)) continue;
      // A stream keeps its order.
      int& after = stream_after_[instruction.stream];
      for (const int wait : waits_of(call, i)) after = std::max(after, wait + 1);
      fetched_after_[index(after)].push_back(at);
    }
    for (const CallWait& wait : role_.step[index(call)].waits) {
      const int sender = base_[index(wait.call)] + wait.other;
      if (!std::holds_alternative<Send>(places_[index(sender)].instruction->operation)) continue;
      received_before_[index(base_[index(call)] + wait.instruction)].push_back(sender);
    }
  }

  void fetch(std::size_t ended) {
    for (const int at : fetched_after_[ended]) allocate_writes(places_[index(at)]);
  }

  void allocate_writes(const Place& place) {
    for (const View& view : place.instruction->writes) {
      if (role_.buffers[view.buffer.index()].scope == BufferScope::Run) continue;
      const Call& call = role_.step[index(place.call)];
      memory_.allocate(instance_of(role_, view.buffer, call, place.call), place.instruction->label);
    }
  }

  void release_frees(const Place& place) {
    for (const BufferId buffer : place.instruction->frees) {
      memory_.release(instance_of(role_, buffer, role_.step[index(place.call)], place.call));
    }
  }

  const Role& role_;
  LiveMemory memory_;
  std::vector<int> base_;  ///< Position of each call's first instruction.
  std::vector<Place> places_;
  std::map<Stream, int> stream_after_;
  std::vector<std::vector<int>> fetched_after_;    ///< By number of instructions ended.
  std::vector<std::vector<int>> received_before_;  ///< By position: sends that it waits for.
};

}  // namespace

MemoryProfile memory_profile(const Role& role) { return Walk(role).run(); }

}  // namespace orrery::core
