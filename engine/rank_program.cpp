#include "engine/rank_program.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/error.h"

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
  }

  RankProgram run() {
    for (std::size_t b = 0; b < out_.role->buffers.size(); ++b) {
      if (out_.role->buffers[b].scope == BufferScope::Run) {
        out_.run_slots[b] = slot_of(BufferId(b), 0, std::nullopt);
      }
    }
    const auto& step = out_.role->step;
    for (std::size_t c = 0; c < step.size(); ++c) {
      call_begin_.push_back(static_cast<std::int32_t>(out_.instructions.size()));
      const auto& block = out_.role->blocks[step[c].block.index()];
      for (std::size_t i = 0; i < block.instructions.size(); ++i) {
        add(block.instructions[i], static_cast<int>(c), static_cast<int>(i), step[c].microbatch);
      }
    }
    link();
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
    if (instruction.guard) flat.guard = slot_of(*instruction.guard, call, microbatch);
    out_.streams[static_cast<std::size_t>(instruction.stream)].push_back(
        static_cast<std::int32_t>(out_.instructions.size()));
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

  // Turns "waits for" into lists of successors.
  void link() {
    std::vector<std::pair<std::int32_t, std::int32_t>> edges;  // (earlier, later)
    const auto& step = out_.role->step;
    for (std::size_t i = 0; i < out_.instructions.size(); ++i) {
      const FlatInstruction& flat = out_.instructions[i];
      for (const int other : flat.source->waits) {
        edges.emplace_back(index_of(flat.call, other), static_cast<std::int32_t>(i));
      }
    }
    for (std::size_t c = 0; c < step.size(); ++c) {
      for (const core::CallWait& wait : step[c].waits) {
        edges.emplace_back(index_of(wait.call, wait.other),
                           index_of(static_cast<int>(c), wait.instruction));
      }
    }
    std::sort(edges.begin(), edges.end());
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    std::size_t edge = 0;
    for (std::size_t i = 0; i < out_.instructions.size(); ++i) {
      FlatRange& range = out_.instructions[i].successors;
      range.begin = static_cast<std::int32_t>(out_.successors.size());
      for (; edge < edges.size() && edges[edge].first == static_cast<std::int32_t>(i); ++edge) {
        require(edges[edge].second > edges[edge].first, "an instruction waits for a later one");
        out_.successors.push_back(edges[edge].second);
        ++out_.instructions[static_cast<std::size_t>(edges[edge].second)].waits;
      }
      range.end = static_cast<std::int32_t>(out_.successors.size());
    }
  }

  std::int32_t index_of(int call, int index) const {
    const std::int32_t flat = call_begin_[static_cast<std::size_t>(call)] + index;
    require(flat >= 0 && flat < static_cast<std::int32_t>(out_.instructions.size()),
            "a wait for an instruction that does not exist");
    return flat;
  }

  void require(bool condition, const std::string& what) const {
    if (!condition) {
      throw core::SystemError("unsound program, role " + out_.role->name + ": " + what);
    }
  }

  RankProgram out_;
  std::map<std::pair<BufferId, int>, std::int32_t> slots_;
  std::map<std::int64_t, std::int32_t> classes_;
  std::vector<std::int32_t> call_begin_;
};

}  // namespace

RankProgram unroll(const core::Program& program, core::Rank rank) {
  return Unroller(program, rank).run();
}

}  // namespace orrery::engine
