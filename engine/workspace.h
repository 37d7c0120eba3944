#pragma once
// What one rank's operators keep from call to call.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "engine/operators/rotate.h"

namespace orrery::engine {

class Workspace {
 public:
  /// At least `count` floats with any content; the previous answer is void.
  float* floats(std::int64_t count) {
    if (static_cast<std::size_t>(count) > memory_.size()) {
      memory_.resize(static_cast<std::size_t>(count));
    }
    return memory_.data();
  }

  /// Computed once for each kind of head.
  const RotationTable& rotation(double theta, int head_dim, std::int64_t sequence) {
    for (const RotationTable& table : rotations_) {
      if (table.theta == theta && table.head_dim == head_dim && table.sequence == sequence) {
        return table;
      }
    }
    return rotations_.emplace_back(rotation_table(theta, head_dim, sequence));
  }

 private:
  std::vector<float> memory_;
  std::deque<RotationTable> rotations_;
};

}  // namespace orrery::engine
