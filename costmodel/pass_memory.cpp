#include "costmodel/pass_memory.h"

#include <algorithm>
#include <utility>

#include "core/lowering/message_bounds.h"
#include "costmodel/lowered_stage.h"

namespace orrery::costmodel {
namespace {

using core::Bytes;

ScaledMemory operator-(const ScaledMemory& a, const ScaledMemory& b) {
  return {a.fixed + b.fixed * -1.0, a.scaled + b.scaled * -1.0};
}

/// Keeps of a pass's moments those that hold most for some microbatch (of equals the first).
class Moments {
 public:
  void add(const ScaledMemory& moment) {
    const Totals now{total(moment.at(1.0)), total(moment.scaled)};
    const auto covers = [](const Totals& a, const Totals& b) {
      return a.least >= b.least && a.growth >= b.growth;
    };
    for (const Totals& kept : totals_) {
      if (covers(kept, now)) return;
    }
    // A later moment takes the place of an earlier one only if it holds more from the start.
    for (std::size_t i = totals_.size(); i-- > 0;) {
      if (!covers(now, totals_[i]) || now.least <= totals_[i].least) continue;
      totals_.erase(totals_.begin() + static_cast<std::ptrdiff_t>(i));
      moments_.erase(moments_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    totals_.push_back(now);
    moments_.push_back(moment);
  }
  std::vector<ScaledMemory> take() { return std::move(moments_); }

 private:
  struct Totals {
    Bytes least, growth;  ///< With the smallest microbatch; with each further one.
  };
  std::vector<Totals> totals_;
  std::vector<ScaledMemory> moments_;
};

class MemoryWalk {
 public:
  explicit MemoryWalk(const ScaledStage& stage)
      : role_(stage.role), bytes_(stage.buffers), live_(stage.buffers.size(), false) {}

  ScaledPassMemory walk() {
    ScaledPassMemory result;
    const std::vector<const core::Block*> passes = pass_blocks(role_);
    result.forward = run(*passes[0]);
    result.saved = now_;
    result.backward = run(*passes[1]);
    result.kept = now_;
    if (passes.size() > 2) result.weight_grad = run(*passes[2]);
    return result;
  }

 private:
  ScaledPassBytes run(const core::Block& block) {
    ScaledPassBytes result;
    for (const core::Instruction& instruction : block.instructions) {
      if (!core::fetches_ahead(instruction)) continue;
      const ScaledMemory before = now_;
      allocate(instruction);
      const bool loads = instruction.stream == core::Stream::Host;
      (loads ? result.loaded : result.received) = now_ - before;
    }
    Moments moments;
    moments.add(now_);
    std::vector<core::BufferId> sent;
    for (const core::Instruction& instruction : block.instructions) {
      if (allocate(instruction)) moments.add(now_);
      const bool sends = std::holds_alternative<core::Send>(instruction.operation);
      for (const core::BufferId id : instruction.frees) {
        if (sends) {
          sent.push_back(id);
        } else {
          release(id);
        }
      }
    }
    result.moments = moments.take();
    const ScaledMemory with_sent = now_;
    for (const core::BufferId id : sent) release(id);
    result.sent = with_sent - now_;
    return result;
  }

  /// Whether the instruction begins a buffer.
  bool allocate(const core::Instruction& instruction) {
    bool any = false;
    for (const core::View& view : instruction.writes) {
      const std::size_t i = view.buffer.index();
      if (role_.buffers[i].scope == core::BufferScope::Run || live_[i]) continue;
      live_[i] = any = true;
      add(now_, i, 1.0);
    }
    return any;
  }
  void release(core::BufferId id) {
    if (!live_[id.index()]) return;
    live_[id.index()] = false;
    add(now_, id.index(), -1.0);
  }
  void add(ScaledMemory& memory, std::size_t buffer, double sign) const {
    const auto term = static_cast<std::size_t>(memory_term(role_.buffers[buffer]));
    memory.fixed[term] += bytes_[buffer].fixed * sign;
    memory.scaled[term] += bytes_[buffer].scaled * sign;
  }

  const core::Role& role_;
  const std::vector<ScaledBytes>& bytes_;
  std::vector<bool> live_;
  ScaledMemory now_;
};

}  // namespace

PassBytes ScaledPassBytes::at(double scale) const {
  PassBytes result{.peak = {},
                   .received = received.at(scale),
                   .loaded = loaded.at(scale),
                   .sent = sent.at(scale)};
  for (const ScaledMemory& moment : moments) {
    const MemoryByTerm memory = moment.at(scale);
    if (total(memory) > total(result.peak)) result.peak = memory;
  }
  return result;
}

PassMemory ScaledPassMemory::at(double scale) const {
  return {.forward = forward.at(scale),
          .backward = backward.at(scale),
          .weight_grad = weight_grad.at(scale),
          .saved = saved.at(scale),
          .kept = kept.at(scale),
          .standing = standing * scale};
}

ScaledMemory standing_memory(const core::Role& role, const std::vector<ScaledBytes>& bytes) {
  ScaledMemory result;
  for (std::size_t i = 0; i < role.buffers.size(); ++i) {
    if (!stands(role.buffers[i])) continue;
    const auto term = static_cast<std::size_t>(memory_term(role.buffers[i]));
    result.fixed[term] += bytes[i].fixed;
    result.scaled[term] += bytes[i].scaled;
  }
  return result;
}

ScaledPassMemory scaled_pass_memory(const ScaledStage& stage) {
  ScaledPassMemory result = MemoryWalk(stage).walk();
  result.standing = standing_memory(stage.role, stage.buffers).scaled;
  return result;
}

}  // namespace orrery::costmodel
