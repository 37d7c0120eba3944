#include "costmodel/stage_profile.h"

#include <algorithm>
#include <map>
#include <vector>

#include "core/lowering/decoder_stage.h"
#include "core/lowering/dependencies.h"
#include "costmodel/compute_cost.h"

namespace orrery::costmodel {
namespace {

using core::Bytes;
using core::Seconds;

/// One stage of a few layers with its blocks, as lowering makes them.
core::Role lowered_stage(const StageQuestion& question, int layers, const core::Transformer& model,
                         const core::Job& job) {
  core::DensePlan plan;
  plan.tensor = question.tensor;
  plan.microbatch = question.microbatch;
  plan.recompute = question.recompute;
  plan.sequence_parallel = question.sequence_parallel;
  if (question.split) plan.schedule = core::PipelineSchedule::ZeroBubbleH1;
  core::Role role;
  core::StageSlots slots;
  if (question.tensor > 1) {
    slots.tensor = core::GroupSlot(role.group_slots.size());
    role.group_slots.push_back(core::GroupKind::Tensor);
  }
  if (!question.first) slots.previous = core::PeerSlot(role.peer_slots++);
  if (!question.last) slots.next = core::PeerSlot(role.peer_slots++);
  const core::StageSlice slice{{{0, layers}}, question.first, question.last, question.tensor, 1};
  const core::DecoderStage stage(model, plan, job, slice, slots, role);
  role.blocks = {stage.forward(0), stage.backward(0)};
  if (question.split) role.blocks.push_back(stage.weight_grad(0));
  for (std::size_t b = 0; b < role.blocks.size(); ++b) {
    role.step.push_back({core::BlockId(b), 0, {}});
  }
  core::add_frees(role);
  core::add_dependencies(role);
  return role;
}

struct BlockTime {
  Seconds makespan, compute, recompute, head, ahead;
};

/// Runs a block's compute and tensor streams, each in order, with every wait; what other streams
/// bring is there in time.
class BlockTimer {
 public:
  BlockTimer(const StageQuestion& question, const core::Device& device, const FabricCost& fabric,
             core::DType precision)
      : question_(question), device_(device), fabric_(fabric), precision_(precision) {}

  BlockTime time(const core::Block& block) const {
    BlockTime result;
    Seconds compute_free, tensor_free;
    bool began = false;
    std::vector<Seconds> ends;
    ends.reserve(block.instructions.size());
    for (const core::Instruction& instruction : block.instructions) {
      Seconds start;
      for (const int wait : instruction.waits) {
        start = std::max(start, ends[static_cast<std::size_t>(wait)]);
      }
      const bool computes = instruction.stream == core::Stream::Compute;
      if (!computes && instruction.stream != core::Stream::Tensor) {
        ends.push_back(start);
        continue;
      }
      Seconds& free = computes ? compute_free : tensor_free;
      const Seconds duration = duration_of(instruction);
      free = std::max(free, start) + duration;
      ends.push_back(free);
      if (!computes) continue;
      result.compute += duration;
      // The first instruction of the pass proper starts where its recomputation ended.
      if (!began && instruction.pass != core::Pass::Recompute) {
        began = true;
        result.ahead = free - duration;
      }
      if (instruction.pass == core::Pass::Recompute) result.recompute += duration;
      if (instruction.label.rfind("head.", 0) == 0) result.head = free;
    }
    result.makespan = compute_free;
    return result;
  }

 private:
  Seconds duration_of(const core::Instruction& instruction) const {
    if (const auto* compute = std::get_if<core::Compute>(&instruction.operation)) {
      return compute_time(*compute, device_, precision_);
    }
    const auto& collective = std::get<core::Collective>(instruction.operation);
    const auto method =
        choose_method(collective.kind, collective.bytes, question_.tensor_alone, fabric_);
    return collective_time(method, collective.kind, collective.bytes, question_.tensor_shared,
                           fabric_);
  }

  const StageQuestion& question_;
  const core::Device& device_;
  const FabricCost& fabric_;
  core::DType precision_;
};

bool fetched_ahead(const core::Instruction& instruction) {
  return std::holds_alternative<core::Receive>(instruction.operation) ||
         instruction.stream == core::Stream::Host;
}

/// Follows core::memory_profile() through the passes of one microbatch.
class MemoryWalk {
 public:
  explicit MemoryWalk(const core::Role& role) : role_(role), live_(role.buffers.size(), false) {}

  PassMemory walk() {
    PassMemory result;
    result.standing = standing();
    result.forward = run(role_.blocks[0]);
    result.saved = now_;
    result.backward = run(role_.blocks[1]);
    result.kept = now_;
    if (role_.blocks.size() > 2) result.weight_grad = run(role_.blocks[2]);
    return result;
  }

 private:
  MemoryByTerm standing() const {
    MemoryByTerm result{};
    for (const core::Buffer& buffer : role_.buffers) {
      const bool stands =
          buffer.scope == core::BufferScope::Run && buffer.kind == core::BufferKind::Communication;
      if (stands) result[static_cast<std::size_t>(memory_term(buffer))] += buffer.bytes();
    }
    return result;
  }

  PassBytes run(const core::Block& block) {
    PassBytes result{};
    for (const core::Instruction& instruction : block.instructions) {
      if (!fetched_ahead(instruction)) continue;
      const MemoryByTerm before = now_;
      allocate(instruction);
      const bool loads = instruction.stream == core::Stream::Host;
      (loads ? result.loaded : result.received) = now_ + before * -1.0;
    }
    result.peak = now_;
    std::vector<core::BufferId> sent;
    for (const core::Instruction& instruction : block.instructions) {
      allocate(instruction);
      if (total(now_) > total(result.peak)) result.peak = now_;
      const bool sends = std::holds_alternative<core::Send>(instruction.operation);
      for (const core::BufferId id : instruction.frees) {
        if (sends) {
          sent.push_back(id);
        } else {
          release(id);
        }
      }
    }
    const MemoryByTerm with_sent = now_;
    for (const core::BufferId id : sent) release(id);
    result.sent = with_sent + now_ * -1.0;
    return result;
  }

  void allocate(const core::Instruction& instruction) {
    for (const core::View& view : instruction.writes) {
      const core::Buffer& buffer = role_.buffers[view.buffer.index()];
      if (buffer.scope == core::BufferScope::Run || live_[view.buffer.index()]) continue;
      live_[view.buffer.index()] = true;
      term(buffer) += buffer.bytes();
    }
  }
  void release(core::BufferId id) {
    if (!live_[id.index()]) return;
    live_[id.index()] = false;
    term(role_.buffers[id.index()]) -= role_.buffers[id.index()].bytes();
  }
  Bytes& term(const core::Buffer& buffer) {
    return now_[static_cast<std::size_t>(memory_term(buffer))];
  }

  const core::Role& role_;
  std::vector<bool> live_;
  MemoryByTerm now_{};
};

Bytes message_of(const core::Role& role) {
  Bytes largest;
  for (const core::Block& block : role.blocks) {
    for (const core::Instruction& instruction : block.instructions) {
      if (const auto* send = std::get_if<core::Send>(&instruction.operation)) {
        largest = std::max(largest, send->bytes);
      }
    }
  }
  return largest;
}

AffineSeconds affine(Seconds of_two, Seconds of_three) {
  const Seconds per_layer = of_three - of_two;
  return {of_two - per_layer * 2, per_layer};
}

PassTime pass_time(const BlockTime& two, const BlockTime& three) {
  return {.makespan = affine(two.makespan, three.makespan),
          .compute = affine(two.compute, three.compute),
          .recompute = affine(two.recompute, three.recompute)};
}

/// Applies `combine` to each part of two memories.
template <class Combine>
PassBytes combined(const PassBytes& a, const PassBytes& b, Combine combine) {
  return {.peak = combine(a.peak, b.peak),
          .received = combine(a.received, b.received),
          .loaded = combine(a.loaded, b.loaded),
          .sent = combine(a.sent, b.sent)};
}
template <class Combine>
PassMemory combined(const PassMemory& a, const PassMemory& b, Combine combine) {
  return {.forward = combined(a.forward, b.forward, combine),
          .backward = combined(a.backward, b.backward, combine),
          .weight_grad = combined(a.weight_grad, b.weight_grad, combine),
          .saved = combine(a.saved, b.saved),
          .kept = combine(a.kept, b.kept),
          .standing = combine(a.standing, b.standing)};
}

}  // namespace

PassMemory StageProfile::memory(int layers) const {
  if (layers == 1) return memory_of_one;
  return combined(memory_of_two, memory_per_layer,
                  [layers](const MemoryByTerm& two, const MemoryByTerm& each) {
                    return two + each * (layers - 2);
                  });
}

StageProfile profile_stage(const StageQuestion& question, const core::Transformer& model,
                           const core::Device& device, const FabricCost& fabric,
                           const core::Job& job) {
  const core::Role two = lowered_stage(question, 2, model, job);
  const core::Role three = lowered_stage(question, 3, model, job);
  const BlockTimer timer(question, device, fabric, job.precision);
  StageProfile profile;
  const BlockTime backward = timer.time(two.blocks[1]);
  profile.forward = pass_time(timer.time(two.blocks[0]), timer.time(three.blocks[0]));
  profile.backward = pass_time(backward, timer.time(three.blocks[1]));
  profile.head_backward = backward.head;
  if (question.split) {
    const BlockTime weight_grad = timer.time(two.blocks[2]);
    profile.weight_grad = pass_time(weight_grad, timer.time(three.blocks[2]));
    profile.head_backward = weight_grad.head;
  }
  if (!question.last) profile.ahead = backward.ahead;
  profile.message = message_of(two);
  profile.memory_of_one = MemoryWalk(lowered_stage(question, 1, model, job)).walk();
  profile.memory_of_two = MemoryWalk(two).walk();
  profile.memory_per_layer =
      combined(MemoryWalk(three).walk(), profile.memory_of_two,
               [](const MemoryByTerm& a, const MemoryByTerm& b) { return a + b * -1.0; });
  return profile;
}

}  // namespace orrery::costmodel
