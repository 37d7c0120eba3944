#include "costmodel/stage_profile.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <vector>

#include "core/error.h"
#include "costmodel/compute_cost.h"

namespace orrery::costmodel {
namespace {

using core::Bytes;
using core::Seconds;

struct BlockTime {
  Seconds makespan, issued, compute, recompute, ahead;
  std::map<StagePart, Seconds> gradients;  ///< When those of each part are complete.
};

/// Runs a block's streams, each in order, with every wait; what other stages and the data bring is
/// there in time.
class BlockTimer {
 public:
  BlockTimer(const StageQuestion& question, const core::Device& device, const FabricCost& fabric,
             core::DType precision)
      : question_(question), device_(device), fabric_(fabric), precision_(precision) {}

  BlockTime time(const core::Block& block, const core::Role& role) const {
    BlockTime result;
    std::array<Seconds, core::kStreams> free{};
    bool began = false;
    Seconds issued;
    std::vector<Seconds> ends;
    ends.reserve(block.instructions.size());
    for (const core::Instruction& instruction : block.instructions) {
      Seconds start;
      for (const int wait : instruction.waits) {
        start = std::max(start, ends[static_cast<std::size_t>(wait)]);
      }
      const Seconds duration = duration_of(instruction, role);
      Seconds& stream = free[static_cast<std::size_t>(instruction.stream)];
      stream = std::max(stream, start) + duration;
      ends.push_back(stream);
      issued += issue_time(instruction, device_, precision_);
      if (const auto part = part_of(instruction.writes, role.parameters, false)) {
        result.gradients[*part] = std::max(result.gradients[*part], stream);
      }
      if (instruction.stream != core::Stream::Compute) continue;
      result.makespan = stream;
      result.issued = issued + duration;
      result.compute += duration;
      // The first instruction of the pass proper starts where its recomputation ended.
      if (!began && instruction.pass != core::Pass::Recompute) {
        began = true;
        result.ahead = stream - duration;
      }
      if (instruction.pass == core::Pass::Recompute) result.recompute += duration;
    }
    return result;
  }

 private:
  Seconds duration_of(const core::Instruction& instruction, const core::Role& role) const {
    if (instruction.stream == core::Stream::Host) return Seconds(0);
    if (const auto* compute = std::get_if<core::Compute>(&instruction.operation)) {
      return compute_time(*compute, device_, precision_);
    }
    if (const auto* collective = std::get_if<core::Collective>(&instruction.operation)) {
      const core::GroupKind kind = role.group_slots[collective->group.index()];
      return collective_time(collective->kind, collective->bytes, question_.groups.of(kind),
                             fabric_);
    }
    if (const auto* send = std::get_if<core::Send>(&instruction.operation)) {
      return hop_time(send->channel, send->bytes);
    }
    if (const auto* receive = std::get_if<core::Receive>(&instruction.operation)) {
      return hop_time(receive->channel, receive->bytes);
    }
    return Seconds(0);
  }

  /// Keys and values go round the context group within a pass; other messages are the pipeline's.
  Seconds hop_time(core::Channel channel, Bytes bytes) const {
    if (channel != core::Channel::Context) return Seconds(0);
    return ring_hop_time(bytes, question_.groups.of(core::GroupKind::Context).shared, fabric_);
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
    const std::vector<const core::Block*> passes = pass_blocks(role_);
    result.forward = run(*passes[0]);
    result.saved = now_;
    result.backward = run(*passes[1]);
    result.kept = now_;
    if (passes.size() > 2) result.weight_grad = run(*passes[2]);
    return result;
  }

 private:
  MemoryByTerm standing() const {
    MemoryByTerm result{};
    for (const core::Buffer& buffer : role_.buffers) {
      if (stands(buffer)) term(result, buffer) += buffer.bytes();
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
      term(now_, buffer) += buffer.bytes();
    }
  }
  void release(core::BufferId id) {
    if (!live_[id.index()]) return;
    live_[id.index()] = false;
    term(now_, role_.buffers[id.index()]) -= role_.buffers[id.index()].bytes();
  }
  static Bytes& term(MemoryByTerm& memory, const core::Buffer& buffer) {
    return memory[static_cast<std::size_t>(memory_term(buffer))];
  }

  const core::Role& role_;
  std::vector<bool> live_;
  MemoryByTerm now_{};
};

Bytes message_of(const core::Role& role) {
  Bytes largest;
  for (const core::Block& block : role.blocks) {
    for (const core::Instruction& instruction : block.instructions) {
      const auto* send = std::get_if<core::Send>(&instruction.operation);
      if (send != nullptr && send->channel != core::Channel::Context) {
        largest = std::max(largest, send->bytes);
      }
    }
  }
  return largest;
}

/// Through `fewer` layers and one more.
AffineSeconds affine(int fewer, Seconds of_fewer, Seconds of_one_more) {
  const Seconds per_layer = of_one_more - of_fewer;
  return {of_fewer - per_layer * fewer, per_layer};
}

PassTime pass_time(int fewer, const BlockTime& a, const BlockTime& b) {
  return {.makespan = {.device = affine(fewer, a.makespan, b.makespan),
                       .host = affine(fewer, a.issued, b.issued)},
          .compute = affine(fewer, a.compute, b.compute),
          .recompute = affine(fewer, a.recompute, b.recompute)};
}

GradientTimes gradient_times(int fewer, const BlockTime& two, const BlockTime& three) {
  const auto before_end = [](const BlockTime& time, StagePart part) {
    const auto complete = time.gradients.find(part);
    return complete == time.gradients.end() ? Seconds(0) : time.makespan - complete->second;
  };
  const auto of_layer = [&](int layer) { return before_end(two, {StagePart::Kind::Layer, layer}); };
  const StagePart head{StagePart::Kind::Head, 0};
  return {.embedding = before_end(two, {StagePart::Kind::Embedding, 0}),
          .first_layer = of_layer(0),
          .per_layer = of_layer(1) - of_layer(0),
          .head = affine(fewer, before_end(two, head), before_end(three, head))};
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
  const int beyond = layers - base;
  if (beyond == 1) return memory_of_one;
  return combined(memory_of_two, memory_per_layer,
                  [beyond](const MemoryByTerm& two, const MemoryByTerm& each) {
                    return two + each * (beyond - 2);
                  });
}

Seconds GradientTimes::before_end(StagePart part, int layers) const {
  switch (part.kind) {
    case StagePart::Kind::Embedding:
      return embedding;
    case StagePart::Kind::Layer:
      return first_layer + per_layer * part.layer;
    case StagePart::Kind::Head:
      return head.at(layers);
  }
  core::check_failed("StagePart", "unknown part", __FILE__, __LINE__);
}

Seconds StageProfile::passes(int layers) const {
  return forward.makespan.at(layers) + backward.makespan.at(layers) +
         weight_grad.makespan.at(layers);
}

Seconds StageProfile::device_passes(int layers) const {
  return forward.makespan.device.at(layers) + backward.makespan.device.at(layers) +
         weight_grad.makespan.device.at(layers);
}

core::DensePlan passes_alone(const core::DensePlan& plan) {
  core::DensePlan alone = plan;
  alone.layers_per_stage.clear();
  alone.pipeline = alone.virtual_stages = 1;
  alone.schedule = order_free(plan.schedule);
  alone.pass_times.reset();
  // Up to stage 1, sharding and data parallelism are the end of the step's business.
  if (alone.sharding_stage <= 1) {
    alone.data = alone.sharding = 1;
    alone.sharding_stage = 0;
  }
  alone.bucket.reset();
  alone.overlap_gradients = true;
  return alone;
}

StageProfile profile_stage(const StageQuestion& question, const StageTwins& twins,
                           const core::Device& device, const FabricCost& fabric,
                           core::DType precision) {
  const auto lowered = [&](int layers) {
    return twins.lowered_stage(question.plan, question.ends, layers);
  };
  const int base = question.plan.recompute_layers.value_or(0);
  const core::Role two = lowered(base + 2);
  const core::Role three = lowered(base + 3);
  const BlockTimer timer(question, device, fabric, precision);
  const auto times = [&](const core::Role& role) {
    std::vector<BlockTime> of_passes;
    for (const core::Block* pass : pass_blocks(role)) of_passes.push_back(timer.time(*pass, role));
    return of_passes;
  };
  const std::vector<BlockTime> of_two = times(two);
  const std::vector<BlockTime> of_three = times(three);
  StageProfile profile;
  profile.base = base;
  profile.forward = pass_time(base + 2, of_two[0], of_three[0]);
  profile.backward = pass_time(base + 2, of_two[1], of_three[1]);
  if (of_two.size() > 2) profile.weight_grad = pass_time(base + 2, of_two[2], of_three[2]);
  profile.gradients = gradient_times(base + 2, of_two.back(), of_three.back());
  if (!question.ends.last) profile.ahead = of_two[1].ahead;
  profile.message = message_of(two);
  profile.memory_of_one = MemoryWalk(lowered(base + 1)).walk();
  profile.memory_of_two = MemoryWalk(two).walk();
  profile.memory_per_layer =
      combined(MemoryWalk(three).walk(), profile.memory_of_two,
               [](const MemoryByTerm& a, const MemoryByTerm& b) { return a + b * -1.0; });
  return profile;
}

}  // namespace orrery::costmodel
