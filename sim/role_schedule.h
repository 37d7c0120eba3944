#pragma once
// One step of a role laid flat: its instructions numbered in (call, index) order, who waits for
// whom, each stream's queue, and what each instruction does to the live memory.

#include <array>
#include <vector>

#include "core/program.h"

namespace orrery::sim {

class RoleSchedule {
 public:
  explicit RoleSchedule(const core::Role&);

  int instructions() const { return static_cast<int>(call_of_.size()); }
  int call_of(int flat) const { return call_of_[static_cast<std::size_t>(flat)]; }
  int index_of(int flat) const {
    return flat - call_begin_[static_cast<std::size_t>(call_of(flat))];
  }
  const core::Instruction& at(int flat) const { return role_->at(call_of(flat), index_of(flat)); }
  core::BlockId block_of(int flat) const {
    return role_->step[static_cast<std::size_t>(call_of(flat))].block;
  }
  const core::Role& role() const { return *role_; }

  /// Instructions of a stream in its order.
  const std::vector<int>& queue(core::Stream stream) const {
    return queues_[static_cast<std::size_t>(stream)];
  }

  /// How many ends each instruction awaits, and whose count its own end lowers.
  const std::vector<int>& wait_counts() const { return wait_counts_; }
  const int* successors_begin(int flat) const {
    return successors_.data() + successors_begin_[static_cast<std::size_t>(flat)];
  }
  const int* successors_end(int flat) const {
    return successors_.data() + successors_begin_[static_cast<std::size_t>(flat) + 1];
  }
  /// The instructions that `flat` waits for.
  std::vector<int> waits_of(int flat) const;

  /// Bytes of the buffer instances that first appear when the instruction starts, and of those that
  /// end with it. An instance that nothing frees ends with the step.
  double allocates(int flat) const { return allocates_[static_cast<std::size_t>(flat)]; }
  double frees(int flat) const { return frees_[static_cast<std::size_t>(flat)]; }
  double unfreed() const { return unfreed_; }
  double persistent() const { return persistent_; }  ///< Buffers of scope Run.

 private:
  void number_instructions();
  void link_waits();
  void place_buffers();
  template <class Visit>
  void for_each_wait(Visit visit) const;

  const core::Role* role_;
  std::vector<int> call_begin_;
  std::vector<int> call_of_;
  std::array<std::vector<int>, core::kStreams> queues_;
  std::vector<int> wait_counts_;
  std::vector<int> successors_begin_;
  std::vector<int> successors_;
  std::vector<double> allocates_;
  std::vector<double> frees_;
  double unfreed_ = 0;
  double persistent_ = 0;
};

}  // namespace orrery::sim
