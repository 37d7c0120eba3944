#include "engine/operators/keys.h"

#include <algorithm>
#include <vector>

namespace orrery::engine {

// Sorts (id, position) packed into one integer: ids are not negative.
std::int32_t unique_keys(const core::UniqueKeys& op, const std::int32_t* ids, std::int32_t* keys,
                         std::int32_t* inverse) {
  std::vector<std::uint64_t> packed(static_cast<std::size_t>(op.lookups));
  for (std::size_t i = 0; i < packed.size(); ++i) {
    packed[i] = static_cast<std::uint64_t>(static_cast<std::uint32_t>(ids[i])) << 32 | i;
  }
  std::sort(packed.begin(), packed.end());
  std::int32_t count = 0;
  for (const std::uint64_t entry : packed) {
    const auto id = static_cast<std::int32_t>(entry >> 32);
    if (count == 0 || keys[count - 1] != id) keys[count++] = id;
    inverse[static_cast<std::uint32_t>(entry)] = count - 1;
  }
  return count;
}

void gather_rows(const core::GatherRows& op, const float* rows, const std::int32_t* inverse,
                 float* out) {
  for (std::int64_t i = 0; i < op.lookups; ++i) {
    const float* row = rows + static_cast<std::int64_t>(inverse[i]) * op.width;
    std::copy_n(row, op.width, out + i * op.width);
  }
}

void sum_row_grads(const core::SumRowGrads& op, const float* dout, const std::int32_t* inverse,
                   std::int32_t count, float* grads) {
  std::fill_n(grads, static_cast<std::int64_t>(count) * op.width, 0.0F);
  for (std::int64_t i = 0; i < op.lookups; ++i) {
    const float* from = dout + i * op.width;
    float* to = grads + static_cast<std::int64_t>(inverse[i]) * op.width;
    for (int j = 0; j < op.width; ++j) to[j] += from[j];
  }
}

}  // namespace orrery::engine
