#include "engine/parameter_ranges.h"

#include <algorithm>

namespace orrery::engine {

namespace {

std::int64_t local_elements(const core::ParameterTensor& tensor) {
  std::int64_t count = 1;
  for (const std::int64_t extent : tensor.local_shape) count *= extent;
  return count;
}

bool counts(core::Counted counted, int tensor_position) {
  switch (counted) {
    case core::Counted::Always:
      return true;
    case core::Counted::FirstTensorPosition:
      return tensor_position == 0;
    case core::Counted::Never:
      return false;
  }
  return false;
}

}  // namespace

std::vector<ParameterRange> counted_ranges(const core::Parameters& parameters, std::int64_t first,
                                           std::int64_t count, int tensor_position) {
  std::vector<ParameterRange> ranges;
  for (const core::ParameterTensor& tensor : parameters.tensors) {
    if (!counts(tensor.counted, tensor_position)) continue;
    const std::int64_t begin = std::max(first, tensor.offset);
    const std::int64_t end = std::min(first + count, tensor.offset + local_elements(tensor));
    if (begin >= end) continue;
    if (!ranges.empty() && ranges.back().first + ranges.back().count == begin) {
      ranges.back().count += end - begin;
    } else {
      ranges.push_back({begin, end - begin});
    }
  }
  return ranges;
}

std::vector<DecayRange> decay_ranges(const core::Parameters& parameters,
                                     const core::Optimizer& optimizer, std::int64_t first,
                                     std::int64_t count) {
  std::vector<DecayRange> ranges;
  const auto cover = [&](std::int64_t begin, std::int64_t end, bool decay) {
    if (begin >= end) return;
    if (!ranges.empty() && ranges.back().decay == decay) {
      ranges.back().count += end - begin;
    } else {
      ranges.push_back({begin, end - begin, decay});
    }
  };
  const std::int64_t last = first + count;
  std::int64_t done = first;
  bool decay = false;
  for (const core::ParameterTensor& tensor : parameters.tensors) {
    const std::int64_t begin = std::clamp(tensor.offset, done, last);
    cover(done, begin, decay);  // Padding.
    decay = optimizer.decay_all || tensor.global_shape.size() >= 2;
    const std::int64_t end = std::clamp(tensor.offset + local_elements(tensor), begin, last);
    cover(begin, end, decay);
    done = end;
  }
  cover(done, last, decay);
  return ranges;
}

}  // namespace orrery::engine
