#pragma once
// What the flat parameter buffer's elements are: which count in the gradient norm, which decay.

#include <cstdint>
#include <vector>

#include "core/job.h"
#include "core/program.h"

namespace orrery::engine {

struct ParameterRange {
  std::int64_t first = 0;  ///< Element of the flat buffer.
  std::int64_t count = 0;
};

/// The parts of [first, first + count) that the rank at `tensor_position` counts in the gradient
/// norm (core::Counted), in order.
std::vector<ParameterRange> counted_ranges(const core::Parameters&, std::int64_t first,
                                           std::int64_t count, int tensor_position);

struct DecayRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool decay = false;
};

/// [first, first + count) cut where the answer changes: tensors with two dimensions or more decay,
/// or all with decay_all. Padding between tensors goes with what comes before it.
std::vector<DecayRange> decay_ranges(const core::Parameters&, const core::Optimizer&,
                                     std::int64_t first, std::int64_t count);

}  // namespace orrery::engine
