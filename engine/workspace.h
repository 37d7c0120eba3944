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

  /// Computed once for each kind of head; a rank is always at the same position.
  const RotationTable& rotation(const core::Rotate& op, int context_position) {
    for (const RotationTable& table : rotations_) {
      if (table.of.theta == op.theta && table.of.head_dim == op.head_dim &&
          table.of.sequence == op.sequence) {
        return table;
      }
    }
    return rotations_.emplace_back(rotation_table(op, context_position));
  }

 private:
  std::vector<float> memory_;
  std::deque<RotationTable> rotations_;
};

}  // namespace orrery::engine
