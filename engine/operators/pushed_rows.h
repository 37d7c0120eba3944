#pragma once
// A server's sums of pushed gradients: distinct keys in the order of their first push, found by a
// hash table.

#include <cstdint>
#include <span>

namespace orrery::engine {

/// The step's sums on one server; views into the Program's buffers.
struct PushedRows {
  std::span<std::int32_t> keys;   ///< [capacity]
  std::span<float> sums;          ///< [capacity, width]
  std::int32_t* count = nullptr;  ///< Keys so far.
  /// Open addressing: slot + 1 of a key at its hash or the next free entry after it, 0 = empty.
  std::span<std::int32_t> index;  ///< 2^n ≥ 2·capacity entries.
  int width = 0;
};

/// sums[slot(key), :] += gradients[i, :]; a new key takes the next slot.
/// @throws SystemError when more distinct keys come than the sums have room for.
void sum_pushed_rows(const PushedRows&, std::span<const std::int32_t> keys, const float* gradients);

}  // namespace orrery::engine
