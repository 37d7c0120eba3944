#pragma once
// A role's step as the simulator plays it: laid flat, with what each instruction does to the live
// memory.

#include <vector>

#include "core/flat_step.h"
#include "core/program.h"

namespace orrery::sim {

class RoleSchedule : public core::FlatStep {
 public:
  explicit RoleSchedule(const core::Role&);

  /// How many ends each instruction awaits.
  const std::vector<int>& wait_counts() const { return wait_counts_; }

  /// Bytes of the buffer instances that first appear when the instruction starts, and of those that
  /// end with it. An instance that nothing frees ends with the step.
  double allocates(int flat) const { return allocates_[static_cast<std::size_t>(flat)]; }
  double frees(int flat) const { return frees_[static_cast<std::size_t>(flat)]; }
  double unfreed() const { return unfreed_; }
  double persistent() const { return persistent_; }  ///< Buffers of scope Run.

 private:
  void place_buffers();

  std::vector<int> wait_counts_;
  std::vector<double> allocates_;
  std::vector<double> frees_;
  double unfreed_ = 0;
  double persistent_ = 0;
};

}  // namespace orrery::sim
