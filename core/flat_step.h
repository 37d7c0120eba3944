#pragma once
// One step of a role laid flat: its instructions numbered in (call, index) order, each stream's
// queue, and who waits for whom. What plays, runs or checks a Program walks this.

#include <array>
#include <span>
#include <vector>

#include "core/program.h"

namespace orrery::core {

class FlatStep {
 public:
  /// The role outlives the result. Its waits name earlier instructions (core::check_program).
  explicit FlatStep(const Role&);

  const Role& role() const { return *role_; }
  int instructions() const { return static_cast<int>(call_of_.size()); }
  int call_of(int flat) const { return call_of_[static_cast<std::size_t>(flat)]; }
  int index_of(int flat) const {
    return flat - call_begin_[static_cast<std::size_t>(call_of(flat))];
  }
  int flat_of(int call, int index) const {
    return call_begin_[static_cast<std::size_t>(call)] + index;
  }
  const Call& call(int flat) const { return role_->step[static_cast<std::size_t>(call_of(flat))]; }
  const Instruction& at(int flat) const { return role_->at(call_of(flat), index_of(flat)); }

  /// Instructions of a stream in its order.
  const std::vector<int>& queue(Stream stream) const {
    return queues_[static_cast<std::size_t>(stream)];
  }

  /// The instructions that `flat` waits for, ascending, each once; those that wait for it, too.
  std::span<const int> waits_of(int flat) const { return waits_.row(flat); }
  std::span<const int> successors_of(int flat) const { return successors_.row(flat); }

 private:
  /// Rows of numbers, one after the other.
  struct Rows {
    std::vector<int> begin;
    std::vector<int> values;
    std::span<const int> row(int i) const {
      const auto first = static_cast<std::size_t>(begin[static_cast<std::size_t>(i)]);
      const auto last = static_cast<std::size_t>(begin[static_cast<std::size_t>(i) + 1]);
      return std::span(values).subspan(first, last - first);
    }
  };

  void number_instructions();
  void gather_waits();
  void invert_waits();

  const Role* role_;
  std::vector<int> call_begin_;
  std::vector<int> call_of_;
  std::array<std::vector<int>, kStreams> queues_;
  Rows waits_, successors_;
};

}  // namespace orrery::core
