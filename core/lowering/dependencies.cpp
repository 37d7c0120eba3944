#include "core/lowering/dependencies.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "core/access_order.h"

namespace orrery::core {
namespace {

/// Waits that conflicts of one instruction call for; `clock` is advanced past them.
std::vector<int> waits_for(const Hazards& hazards, const Clocks& clocks,
                           const std::vector<std::pair<Instance, Access>>& accesses, Clock& clock) {
  std::vector<int> needed;
  for (const auto& [instance, access] : accesses) {
    for (const int position : hazards.conflicts(instance, access, clock))
      needed.push_back(position);
  }
  std::sort(needed.begin(), needed.end(), std::greater<>());
  needed.erase(std::unique(needed.begin(), needed.end()), needed.end());
  std::vector<int> waits;
  for (const int position : needed) {
    const Clock known = clocks.after(position);
    const auto stream =
        static_cast<std::size_t>(std::find(known.begin(), known.end(), position) - known.begin());
    if (clock[stream] >= position) continue;  // A later wait implies it.
    waits.push_back(position);
    join(clock, known);
  }
  std::sort(waits.begin(), waits.end());
  return waits;
}

void add_waits_within(const Role& role, Block& block) {
  Hazards hazards;
  Clocks clocks;
  for (Instruction& instruction : block.instructions) {
    Clock clock = clocks.before(instruction.stream);
    const int position = clocks.next_position();
    std::vector<std::pair<Instance, Access>> accesses;
    for (const auto& [buffer, access] : accesses_of(role, instruction, position)) {
      accesses.push_back({{buffer, 0}, access});
    }
    for (const int wait : waits_for(hazards, clocks, accesses, clock)) {
      instruction.waits.push_back(wait - 1);
    }
    for (const auto& [instance, access] : accesses) hazards.record(instance, access);
    clocks.visit(instruction.stream, clock);
  }
}

void add_waits_across(Role& role) {
  Hazards hazards;
  Clocks clocks;
  std::vector<std::pair<int, int>> place;  // (call, index) by position − 1
  for (int c = 0; c < static_cast<int>(role.step.size()); ++c) {
    Call& call = role.step[static_cast<std::size_t>(c)];
    const auto& instructions = role.blocks[call.block.index()].instructions;
    const int base = static_cast<int>(place.size());
    for (int i = 0; i < static_cast<int>(instructions.size()); ++i) {
      const Instruction& instruction = instructions[static_cast<std::size_t>(i)];
      Clock clock = clocks.before(instruction.stream);
      for (const int wait : instruction.waits) join(clock, clocks.after(base + wait + 1));
      std::vector<std::pair<Instance, Access>> accesses;
      for (const auto& [buffer, access] : accesses_of(role, instruction, clocks.next_position())) {
        if (role.buffers[buffer.index()].scope == BufferScope::Call) continue;
        accesses.push_back({instance_of(role, buffer, call, c), access});
      }
      for (const int wait : waits_for(hazards, clocks, accesses, clock)) {
        const auto [other_call, other] = place[static_cast<std::size_t>(wait - 1)];
        call.waits.push_back({i, other_call, other});
      }
      for (const auto& [instance, access] : accesses) hazards.record(instance, access);
      for (const BufferId buffer : instruction.frees) {
        if (role.buffers[buffer.index()].scope == BufferScope::Microbatch) {
          hazards.forget(instance_of(role, buffer, call, c));
        }
      }
      clocks.visit(instruction.stream, clock);
      place.push_back({c, i});
    }
  }
}

bool reads_what_is_written_by(const Instruction& reader, const Instruction& writer) {
  for (const View& written : writer.writes) {
    for (const View& read : reader.reads) {
      if (read.buffer == written.buffer) return true;
    }
  }
  return false;
}

/// The instruction that frees what `last` uses last.
Instruction* freeing(Block& block, Instruction* last) {
  if (!std::holds_alternative<Collective>(last->operation)) return last;
  for (Instruction* i = last + 1; i < block.instructions.data() + block.instructions.size(); ++i) {
    if (i->stream == Stream::Compute && reads_what_is_written_by(*i, *last)) return i;
  }
  return last;
}

/// The last instruction of a block that uses each of the role's buffers; null where none does.
std::vector<Instruction*> last_uses(const Role& role, Block& block) {
  std::vector<Instruction*> last(role.buffers.size(), nullptr);
  for (Instruction& instruction : block.instructions) {
    for (const View& view : instruction.reads) last[view.buffer.index()] = &instruction;
    for (const View& view : instruction.writes) last[view.buffer.index()] = &instruction;
  }
  return last;
}

/// Position in the step of each block's call on the first microbatch that it is called on.
std::vector<int> block_order(const Role& role) {
  std::vector<int> order(role.blocks.size(), 0);
  for (int c = static_cast<int>(role.step.size()) - 1; c >= 0; --c) {
    const Call& call = role.step[static_cast<std::size_t>(c)];
    if (call.microbatch.value_or(0) == 0) order[call.block.index()] = c;
  }
  return order;
}

}  // namespace

void add_frees(Role& role) {
  const std::vector<int> order = block_order(role);
  std::vector<std::vector<Instruction*>> last_in_block;
  for (Block& block : role.blocks) last_in_block.push_back(last_uses(role, block));
  for (std::size_t b = 0; b < role.buffers.size(); ++b) {
    const BufferId buffer(b);
    const BufferScope scope = role.buffers[b].scope;
    if (scope == BufferScope::Run) continue;
    Instruction* last_of_microbatch = nullptr;
    std::optional<int> latest;
    for (std::size_t k = 0; k < role.blocks.size(); ++k) {
      Instruction* last = last_in_block[k][b];
      if (last == nullptr) continue;
      last = freeing(role.blocks[k], last);
      if (scope == BufferScope::Call) {
        last->frees.push_back(buffer);
      } else if (!latest || order[k] > *latest) {
        latest = order[k];
        last_of_microbatch = last;
      }
    }
    if (last_of_microbatch != nullptr) last_of_microbatch->frees.push_back(buffer);
  }
}

void add_dependencies(Role& role) {
  for (Block& block : role.blocks) add_waits_within(role, block);
  add_waits_across(role);
}

}  // namespace orrery::core
