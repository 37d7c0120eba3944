#include "core/flat_step.h"

#include <algorithm>

#include "core/error.h"

namespace orrery::core {

FlatStep::FlatStep(const Role& role) : role_(&role) {
  number_instructions();
  gather_waits();
  invert_waits();
}

void FlatStep::number_instructions() {
  for (std::size_t c = 0; c < role_->step.size(); ++c) {
    call_begin_.push_back(instructions());
    for (const Instruction& i : role_->blocks[role_->step[c].block.index()].instructions) {
      queues_[static_cast<std::size_t>(i.stream)].push_back(instructions());
      call_of_.push_back(static_cast<int>(c));
    }
  }
}

void FlatStep::gather_waits() {
  waits_.begin.push_back(0);
  std::vector<CallWait> across;  // Of one call, by waiting instruction.
  for (std::size_t c = 0; c < role_->step.size(); ++c) {
    across = role_->step[c].waits;
    std::stable_sort(across.begin(), across.end(), [](const CallWait& a, const CallWait& b) {
      return a.instruction < b.instruction;
    });
    auto next = across.begin();
    const auto& instructions = role_->blocks[role_->step[c].block.index()].instructions;
    for (int i = 0; i < static_cast<int>(instructions.size()); ++i) {
      const auto first = static_cast<std::ptrdiff_t>(waits_.values.size());
      for (; next != across.end() && next->instruction == i; ++next) {
        waits_.values.push_back(flat_of(next->call, next->other));
      }
      for (const int other : instructions[static_cast<std::size_t>(i)].waits) {
        waits_.values.push_back(flat_of(static_cast<int>(c), other));
      }
      const auto begin = waits_.values.begin() + first;
      std::sort(begin, waits_.values.end());
      waits_.values.erase(std::unique(begin, waits_.values.end()), waits_.values.end());
      waits_.begin.push_back(static_cast<int>(waits_.values.size()));
    }
  }
}

void FlatStep::invert_waits() {
  successors_.begin.assign(call_of_.size() + 1, 0);
  successors_.values.resize(waits_.values.size());
  for (int flat = 0; flat < instructions(); ++flat) {
    for (const int awaited : waits_of(flat)) {
      ORRERY_CHECK(awaited >= 0 && awaited < flat, "an instruction waits for a later one");
      ++successors_.begin[static_cast<std::size_t>(awaited) + 1];
    }
  }
  for (std::size_t i = 0; i < call_of_.size(); ++i) {
    successors_.begin[i + 1] += successors_.begin[i];
  }
  std::vector<int> next(successors_.begin.begin(), successors_.begin.end() - 1);
  for (int flat = 0; flat < instructions(); ++flat) {
    for (const int awaited : waits_of(flat)) {
      int& slot = next[static_cast<std::size_t>(awaited)];
      successors_.values[static_cast<std::size_t>(slot++)] = flat;
    }
  }
}

}  // namespace orrery::core
