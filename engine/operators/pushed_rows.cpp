#include "engine/operators/pushed_rows.h"

#include <algorithm>
#include <bit>

#include "core/error.h"

namespace orrery::engine {

namespace {

/// Multiplicative hash of `bits` bits: 2^64 divided by the golden ratio spreads consecutive keys.
/// Source: Knuth, The Art of Computer Programming 3, section 6.4.
std::size_t hash(std::int32_t key, int bits) {
  constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15;
  return static_cast<std::size_t>(static_cast<std::uint32_t>(key) * kGolden >> (64 - bits));
}

/// The entry of `index` that holds `key`'s slot, or where it belongs.
std::int32_t& entry_of(const PushedRows& rows, std::int32_t key) {
  const std::size_t mask = rows.index.size() - 1;
  std::size_t at = hash(key, std::countr_zero(rows.index.size()));
  while (rows.index[at] != 0 && rows.keys[static_cast<std::size_t>(rows.index[at] - 1)] != key) {
    at = (at + 1) & mask;
  }
  return rows.index[at];
}

}  // namespace

void sum_pushed_rows(const PushedRows& rows, std::span<const std::int32_t> keys,
                     const float* gradients) {
  const auto width = static_cast<std::size_t>(rows.width);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    std::int32_t& entry = entry_of(rows, keys[i]);
    const float* gradient = gradients + i * width;
    if (entry == 0) {
      const auto slot = static_cast<std::size_t>(*rows.count);
      if (slot == rows.keys.size()) {
        throw core::SystemError("a step's pushes name more rows than the program has room for");
      }
      rows.keys[slot] = keys[i];
      std::copy_n(gradient, width, rows.sums.data() + slot * width);
      entry = ++*rows.count;
      continue;
    }
    float* sum = rows.sums.data() + static_cast<std::size_t>(entry - 1) * width;
    for (std::size_t j = 0; j < width; ++j) sum[j] += gradient[j];
  }
}

}  // namespace orrery::engine
