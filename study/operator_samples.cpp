#include "study/operator_samples.h"

#include <array>
#include <map>
#include <variant>

#include "study/lower_quartile.h"

namespace orrery::study {
namespace {

/// Names an instruction of a role: role, block, index.
using Key = std::array<int, 3>;

std::map<Key, std::vector<double>> executions(const core::Program& program,
                                              const core::Trace& trace) {
  std::map<Key, std::vector<double>> seconds;
  const bool warm_up = trace.steps.size() > 1;
  for (const core::Span& span : trace.spans) {
    if (warm_up && span.instruction.step == 0) continue;
    const core::Rank rank = trace.lanes[static_cast<std::size_t>(span.lane)].rank;
    const core::RoleId role = program.ranks[rank.index()].role;
    const core::Role& instructions = program.roles[role.index()];
    const core::Instruction& instruction =
        instructions.at(span.instruction.call, span.instruction.index);
    if (!std::holds_alternative<core::Compute>(instruction.operation)) continue;
    const core::BlockId block =
        instructions.step[static_cast<std::size_t>(span.instruction.call)].block;
    seconds[{role.value, block.value, span.instruction.index}].push_back(
        (span.end - span.start).value);
  }
  return seconds;
}

}  // namespace

core::Durations measured_durations(const core::Program& program, const core::Trace& trace) {
  core::Durations durations = core::zero_durations(program);
  for (const auto& [key, values] : executions(program, trace)) {
    durations.by_instruction[static_cast<std::size_t>(key[0])][static_cast<std::size_t>(key[1])]
                            [static_cast<std::size_t>(key[2])] =
        core::Seconds(lower_quartile(values));
  }
  return durations;
}

std::vector<OperatorSample> operator_samples(const core::Program& program,
                                             const core::Trace& trace) {
  std::vector<OperatorSample> samples;
  for (const auto& [key, values] : executions(program, trace)) {
    const auto& blocks = program.roles[static_cast<std::size_t>(key[0])].blocks;
    const auto& compute =
        std::get<core::Compute>(blocks[static_cast<std::size_t>(key[1])]
                                    .instructions[static_cast<std::size_t>(key[2])]
                                    .operation);
    samples.push_back({compute.op, compute.work, core::Seconds(lower_quartile(values))});
  }
  return samples;
}

}  // namespace orrery::study
