#include "core/check/program_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "core/access_order.h"
#include "core/check/rendezvous_check.h"
#include "core/flat_step.h"

namespace orrery::core {
namespace {

/// Above this many instructions only the first data way is played: the others do the same.
constexpr std::size_t kPlayAllBelow = 5'000'000;

class RoleCheck {
 public:
  explicit RoleCheck(const Role& role) : role_(role) {}

  std::vector<std::string> run() {
    if (!check_structure()) return std::move(faults_);
    check_step();
    for (const Instance& instance : live_) {
      fault(fmt::format("buffer \"{}\" of microbatch or call {} is never freed",
                        buffer(instance.first).name, instance.second));
    }
    return std::move(faults_);
  }

 private:
  const Buffer& buffer(BufferId id) const { return role_.buffers[id.index()]; }

  void fault(std::string text) { faults_.push_back(role_.name + ": " + std::move(text)); }
  void fault(int call, int index, const std::string& text) {
    fault(fmt::format("call {} instruction {} ({}): {}", call, index, role_.at(call, index).label,
                      text));
  }

  bool check_structure() {
    for (const Block& block : role_.blocks) {
      for (std::size_t i = 0; i < block.instructions.size(); ++i) {
        check_views(block, i);
        check_message(block, i);
        for (const int wait : block.instructions[i].waits) {
          if (wait < 0 || static_cast<std::size_t>(wait) >= i) {
            fault(fmt::format(
                "block {} instruction {} waits for instruction {}, which is not before it",
                block.name, i, wait));
          }
        }
      }
    }
    for (int c = 0; c < static_cast<int>(role_.step.size()); ++c) {
      check_call_waits(c);
    }
    return faults_.empty();
  }

  void check_call_waits(int c) {
    const Call& call = role_.step[static_cast<std::size_t>(c)];
    const auto instructions_of = [&](const Call& some) {
      return static_cast<int>(role_.blocks[some.block.index()].instructions.size());
    };
    for (const CallWait& wait : call.waits) {
      if (wait.call < 0 || wait.call >= c) {
        fault(fmt::format("call {} waits for call {}, which is not before it", c, wait.call));
      } else if (wait.instruction < 0 || wait.instruction >= instructions_of(call) ||
                 wait.other < 0 ||
                 wait.other >= instructions_of(role_.step[static_cast<std::size_t>(wait.call)])) {
        fault(
            fmt::format("call {}: instruction {} waits for instruction {} of call {}; one of them "
                        "does not exist",
                        c, wait.instruction, wait.other, wait.call));
      }
    }
  }

  void check_views(const Block& block, std::size_t i) {
    const Instruction& instruction = block.instructions[i];
    const auto check = [&](const View& view) {
      if (view.buffer.index() >= role_.buffers.size()) {
        fault(fmt::format("block {} instruction {} names a buffer that does not exist", block.name,
                          i));
      } else if (view.first < 0 || view.count < 0 ||
                 view.first + view.count > buffer(view.buffer).elements()) {
        fault(fmt::format("block {} instruction {} ({}): elements {} to {} of buffer \"{}\" of {}",
                          block.name, i, instruction.label, view.first, view.first + view.count,
                          buffer(view.buffer).name, buffer(view.buffer).elements()));
      }
    };
    for (const View& view : instruction.reads) check(view);
    for (const View& view : instruction.writes) check(view);
  }

  double bytes_of(const View& view) const {
    return static_cast<double>(view.count) * dtype_bytes(buffer(view.buffer).dtype);
  }

  /// The bytes that a communication states are those of its larger view: what the simulator moves is
  /// what the engine moves. Its stream says what it serves (core::communication_kind).
  void check_message(const Block& block, std::size_t i) {
    const Instruction& instruction = block.instructions[i];
    if (std::holds_alternative<Compute>(instruction.operation)) return;
    if (instruction.stream == Stream::Compute || instruction.stream == Stream::Host) {
      fault(fmt::format("block {} instruction {} ({}): a communication on the {} stream",
                        block.name, i, instruction.label, stream_name(instruction.stream)));
    }
    std::optional<Bytes> stated;
    if (const auto* c = std::get_if<Collective>(&instruction.operation)) stated = c->bytes;
    if (const auto* s = std::get_if<Send>(&instruction.operation)) stated = s->bytes;
    if (const auto* r = std::get_if<Receive>(&instruction.operation)) stated = r->bytes;
    if (!stated) return;
    double viewed = 0;
    for (const auto* views : {&instruction.reads, &instruction.writes}) {
      for (const View& view : *views) {
        if (view.buffer.index() < role_.buffers.size()) viewed = std::max(viewed, bytes_of(view));
      }
    }
    const bool sliced = std::holds_alternative<Collective>(instruction.operation) &&
                        !instruction.reads.empty() && instruction.reads[0].slice &&
                        !instruction.writes.empty() && instruction.writes[0].slice;
    if (sliced ? stated->value > viewed : stated->value != viewed) {
      fault(fmt::format("block {} instruction {} ({}): states {} B, its views hold {} B",
                        block.name, i, instruction.label, stated->value, viewed));
    }
  }

  void check_step() {
    const FlatStep step(role_);
    for (int flat = 0; flat < step.instructions(); ++flat) {
      const Instruction& instruction = step.at(flat);
      Clock clock = clocks_.before(instruction.stream);
      // Positions count from 1.
      for (const int wait : step.waits_of(flat)) join(clock, clocks_.after(wait + 1));
      check_lifetimes(step.call_of(flat), step.index_of(flat), instruction);
      check_order(step.call_of(flat), step.index_of(flat), instruction, clock);
      clocks_.visit(instruction.stream, clock);
    }
  }

  void check_lifetimes(int c, int i, const Instruction& instruction) {
    const Call& call = role_.step[static_cast<std::size_t>(c)];
    for (const View& view : instruction.reads) {
      if (buffer(view.buffer).scope != BufferScope::Run &&
          !live_.contains(instance_of(role_, view.buffer, call, c))) {
        fault(c, i,
              fmt::format("reads buffer \"{}\", which is not written yet or already freed",
                          buffer(view.buffer).name));
      }
    }
    for (const View& view : instruction.writes) {
      if (buffer(view.buffer).scope != BufferScope::Run) {
        live_.insert(instance_of(role_, view.buffer, call, c));
      }
    }
    for (const BufferId id : instruction.frees) {
      if (live_.erase(instance_of(role_, id, call, c)) == 0) {
        fault(c, i, fmt::format("frees buffer \"{}\", which does not live", buffer(id).name));
      }
    }
  }

  void check_order(int c, int i, const Instruction& instruction, const Clock& clock) {
    const Call& call = role_.step[static_cast<std::size_t>(c)];
    const auto accesses = accesses_of(role_, instruction, clocks_.next_position());
    for (const auto& [id, access] : accesses) {
      const Instance instance = instance_of(role_, id, call, c);
      for (const int position : hazards_.conflicts(instance, access, clock)) {
        fault(c, i,
              fmt::format("touches buffer \"{}\" without waiting for instruction {} of the "
                          "step, which does too, on another stream",
                          buffer(id).name, position));
      }
    }
    for (const auto& [id, access] : accesses) {
      hazards_.record(instance_of(role_, id, call, c), access);
    }
    for (const BufferId id : instruction.frees) {
      hazards_.forget(instance_of(role_, id, call, c));
    }
  }

  const Role& role_;
  Hazards hazards_;
  Clocks clocks_;
  std::set<Instance> live_;
  std::vector<std::string> faults_;
};

std::vector<std::string> check_bindings(const Program& program) {
  std::vector<std::string> faults;
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    const RankBinding& binding = program.ranks[r];
    if (binding.role.index() >= program.roles.size()) {
      faults.push_back(fmt::format("rank {} has a role that does not exist", r));
      continue;
    }
    const Role& role = program.roles[binding.role.index()];
    if (binding.groups.size() != role.group_slots.size() ||
        binding.peers.size() != static_cast<std::size_t>(role.peer_slots)) {
      faults.push_back(fmt::format(
          "rank {}: its role has {} group and {} peer slots, it fills {} and {}", r,
          role.group_slots.size(), role.peer_slots, binding.groups.size(), binding.peers.size()));
    }
  }
  return faults;
}

std::vector<Rank> ranks_to_play(const Program& program) {
  std::size_t instructions = 0;
  for (const RankBinding& binding : program.ranks) {
    const Role& role = program.roles[binding.role.index()];
    for (const Call& call : role.step)
      instructions += role.blocks[call.block.index()].instructions.size();
  }
  std::vector<Rank> ranks;
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    if (instructions < kPlayAllBelow || program.ranks[r].data_way == 0) ranks.push_back(Rank(r));
  }
  return ranks;
}

}  // namespace

std::vector<std::string> check_program(const Program& program) {
  std::vector<std::string> faults = check_bindings(program);
  if (!faults.empty()) return faults;
  for (const Role& role : program.roles) {
    for (std::string& fault : RoleCheck(role).run()) faults.push_back(std::move(fault));
  }
  if (!faults.empty()) return faults;
  return check_rendezvous(program, ranks_to_play(program));
}

}  // namespace orrery::core
