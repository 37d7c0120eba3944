#include "engine/rank_program.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/error.h"
#include "core/flat_step.h"

namespace orrery::engine {

namespace {

using core::BufferId;
using core::BufferScope;

class Unroller {
 public:
  Unroller(const core::Program& program, core::Rank rank) {
    out_.program = &program;
    out_.rank = rank;
    out_.binding = &program.ranks[rank.index()];
    out_.role = &program.role_of(rank);
    out_.run_slots.resize(out_.role->buffers.size());
    for (const core::GroupId group : out_.binding->groups) {
      const std::vector<core::Rank>& members = program.groups[group.index()].members;
      const auto found = std::find(members.begin(), members.end(), rank);
      std::optional<int>& position = out_.positions.emplace_back();
      if (found != members.end()) position = static_cast<int>(found - members.begin());
    }
  }

  RankProgram run() {
    for (std::size_t b = 0; b < out_.role->buffers.size(); ++b) {
      if (out_.role->buffers[b].scope == BufferScope::Run) {
        out_.run_slots[b] = slot_of(BufferId(b), 0, std::nullopt);
      }
    }
    const core::FlatStep step(*out_.role);
    for (int flat = 0; flat < step.instructions(); ++flat) {
      add(step.at(flat), step.call_of(flat), step.index_of(flat), step.call(flat).microbatch);
      add_successors(step, flat);
    }
    for (int s = 0; s < core::kStreams; ++s) {
      const std::vector<int>& queue = step.queue(static_cast<core::Stream>(s));
      out_.streams[static_cast<std::size_t>(s)].assign(queue.begin(), queue.end());
    }
    return std::move(out_);
  }

 private:
  void add(const core::Instruction& instruction, int call, int index,
           std::optional<int> microbatch) {
    FlatInstruction flat;
    flat.source = &instruction;
    flat.call = call;
    flat.index = index;
    flat.microbatch = microbatch;
    flat.stream = instruction.stream;
    flat.computes = std::holds_alternative<core::Compute>(instruction.operation);
    flat.reads = add_views(instruction.reads, call, microbatch);
    flat.writes = add_views(instruction.writes, call, microbatch);
    flat.frees.begin = static_cast<std::int32_t>(out_.freed.size());
    for (const BufferId buffer : instruction.frees) {
      out_.freed.push_back(slot_of(buffer, call, microbatch));
    }
    flat.frees.end = static_cast<std::int32_t>(out_.freed.size());
    out_.instructions.push_back(flat);
  }

  FlatRange add_views(const std::vector<core::View>& views, int call,
                      std::optional<int> microbatch) {
    FlatRange range;
    range.begin = static_cast<std::int32_t>(out_.operands.size());
    for (const core::View& view : views) {
      FlatOperand operand;
      operand.slot = slot_of(view.buffer, call, microbatch);
      operand.first = view.first;
      operand.count = view.count;
      if (view.slice) {
        const core::Group& group =
            out_.program->groups[out_.binding->groups[view.slice->index()].index()];
        const auto parts = static_cast<std::int64_t>(group.members.size());
        require(view.count % parts == 0, "a slice of unequal parts");
        operand.count = view.count / parts;
        operand.first += operand.count * core::position_in(group, out_.rank);
      }
      const core::Buffer& buffer = out_.role->buffers[view.buffer.index()];
      require(operand.first >= 0 && operand.first + operand.count <= buffer.elements(),
              "a view outside buffer " + buffer.name);
      out_.operands.push_back(operand);
    }
    range.end = static_cast<std::int32_t>(out_.operands.size());
    return range;
  }

  std::int32_t slot_of(BufferId id, int call, std::optional<int> microbatch) {
    const core::Buffer& buffer = out_.role->buffers[id.index()];
    int instance = 0;
    if (buffer.scope == BufferScope::Microbatch) {
      require(microbatch.has_value(),
              "buffer " + buffer.name + " used in a call without microbatch");
      instance = *microbatch;
    } else if (buffer.scope == BufferScope::Call) {
      instance = call;
    }
    const auto [found, is_new] =
        slots_.try_emplace({id, instance}, static_cast<std::int32_t>(out_.slots.size()));
    if (is_new) {
      BufferSlot slot;
      slot.buffer = id;
      slot.element_bytes = core::dtype_bytes(buffer.dtype);
      slot.bytes = buffer.elements() * slot.element_bytes;
      slot.run_scope = buffer.scope == BufferScope::Run;
      slot.size_class = classes_.try_emplace(slot.bytes, static_cast<std::int32_t>(classes_.size()))
                            .first->second;
      out_.slots.push_back(slot);
      out_.size_classes = static_cast<std::int32_t>(classes_.size());
    }
    return found->second;
  }

  void add_successors(const core::FlatStep& step, int flat) {
    FlatInstruction& last = out_.instructions.back();
    last.waits = static_cast<std::int32_t>(step.waits_of(flat).size());
    last.successors.begin = static_cast<std::int32_t>(out_.successors.size());
    for (const int next : step.successors_of(flat)) out_.successors.push_back(next);
    last.successors.end = static_cast<std::int32_t>(out_.successors.size());
  }

  void require(bool condition, const std::string& what) const {
    if (!condition) {
      throw core::SystemError("unsound program, role " + out_.role->name + ": " + what);
    }
  }

  RankProgram out_;
  std::map<std::pair<BufferId, int>, std::int32_t> slots_;
  std::map<std::int64_t, std::int32_t> classes_;
};

}  // namespace

RankProgram unroll(const core::Program& program, core::Rank rank) {
  return Unroller(program, rank).run();
}

}  // namespace orrery::engine
