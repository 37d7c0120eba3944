#pragma once
// Functions and sums written so that the compiler turns loops over them into vector instructions
// under strict IEEE rules. Sums have a fixed order, so their bits do not depend on the vector
// width.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace orrery::engine {

/// eˣ in float. Relative error ≤ 2.5e-7 (two units in the last place) for −87.3 ≤ x ≤ 88.3; 0 below
/// that range, and the value at its end above it.
///
/// x = n·ln2 + r with |r| ≤ ½ln2, eˣ = 2ⁿ·eʳ, eʳ by its Taylor polynomial of degree 7, whose
/// remainder is at most (½ln2)⁸/8! = 5.2e-9. ln2 in two parts (Cody and Waite) keeps r exact.
static inline float exp_float(float x) {
  constexpr float kLargest = 88.3F;    // eˣ near the largest float, 3.4e38.
  constexpr float kSmallest = -87.3F;  // eˣ near the smallest normal float, 1.2e-38.
  constexpr float kLog2E = 1.44269504F;
  constexpr float kRound = 12582912.0F;  // 1.5·2²³: adding it leaves the nearest integer in the
                                         // low bits, subtracting it again gives that integer.
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  const float high = x > kLargest ? kLargest : x;
  const float bounded = high < kSmallest ? kSmallest : high;
  const float shifted = bounded * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (bounded - n * kLn2High) - n * kLn2Low;
  float p = 1.0F / 5040.0F;
  p = p * r + 1.0F / 720.0F;
  p = p * r + 1.0F / 120.0F;
  p = p * r + 1.0F / 24.0F;
  p = p * r + 1.0F / 6.0F;
  p = p * r + 0.5F;
  p = p * (r * r) + r;
  p = p + 1.0F;
  const std::uint32_t exponent = std::bit_cast<std::uint32_t>(shifted) << 23;  // n in the top bits.
  const float scaled = std::bit_cast<float>(std::bit_cast<std::uint32_t>(p) + exponent);
  return x < kSmallest ? 0.0F : scaled;
}

/// 1/(1 + e⁻ˣ); relative error ≤ 5e-7 where it is above 1.2e-38.
static inline float logistic(float x) { return 1.0F / (1.0F + exp_float(-x)); }

/// Partial sums of a reduction, 16 floats: one AVX-512 register, two of AVX2.
inline constexpr std::size_t kLanes = 16;

/// Σᵢ f(i) for i in [0, count): lane l adds the terms i ≡ l (mod 16), then the lanes are added in
/// a tree.
template <class Term>
float lane_sum(std::int64_t count, Term f) {
  std::array<float, kLanes> lanes{};
  const std::int64_t whole = count / static_cast<std::int64_t>(kLanes);
  for (std::int64_t block = 0; block < whole; ++block) {
    const std::int64_t base = block * static_cast<std::int64_t>(kLanes);
    for (std::size_t l = 0; l < kLanes; ++l) lanes[l] += f(base + static_cast<std::int64_t>(l));
  }
  for (std::int64_t i = whole * static_cast<std::int64_t>(kLanes); i < count; ++i) {
    lanes[static_cast<std::size_t>(i) % kLanes] += f(i);
  }
  for (std::size_t width = kLanes / 2; width > 0; width /= 2) {
    for (std::size_t l = 0; l < width; ++l) lanes[l] += lanes[l + width];
  }
  return lanes[0];
}

/// Largest of x[0 .. count); `start` where count is 0.
static inline float lane_max(const float* x, std::int64_t count, float start) {
  std::array<float, kLanes> lanes;
  lanes.fill(start);
  const std::int64_t whole = count / static_cast<std::int64_t>(kLanes);
  for (std::int64_t block = 0; block < whole; ++block) {
    const float* base = x + block * static_cast<std::int64_t>(kLanes);
    for (std::size_t l = 0; l < kLanes; ++l) lanes[l] = lanes[l] < base[l] ? base[l] : lanes[l];
  }
  for (std::int64_t i = whole * static_cast<std::int64_t>(kLanes); i < count; ++i) {
    lanes[0] = lanes[0] < x[i] ? x[i] : lanes[0];
  }
  for (std::size_t l = 1; l < kLanes; ++l) lanes[0] = lanes[0] < lanes[l] ? lanes[l] : lanes[0];
  return lanes[0];
}

/// out[j] += Σ_r f(r, j) over the rows, for each of `width` columns. Rows are added in groups of 32
/// before they are added to `out`, so the rounding error grows with rows/32, not with rows.
template <class Term>
void add_rows(std::int64_t rows, std::int64_t width, float* out, Term f) {
  constexpr std::int64_t kColumns = 256;
  constexpr std::int64_t kRows = 32;
  for (std::int64_t first = 0; first < width; first += kColumns) {
    const std::int64_t columns = width - first < kColumns ? width - first : kColumns;
    for (std::int64_t top = 0; top < rows; top += kRows) {
      const std::int64_t bottom = rows - top < kRows ? rows : top + kRows;
      float sum[kColumns] = {};
      for (std::int64_t r = top; r < bottom; ++r) {
        for (std::int64_t j = 0; j < columns; ++j) sum[j] += f(r, first + j);
      }
      for (std::int64_t j = 0; j < columns; ++j) out[first + j] += sum[j];
    }
  }
}

/// Softmax of a row over its first n ≥ 1 scores, zero beyond up to `keys`; returns log Σ exp.
inline float softmax_row(float* scores, std::int64_t n, std::int64_t keys) {
  const float largest = lane_max(scores, n, scores[0]);
  for (std::int64_t u = 0; u < n; ++u) scores[u] = exp_float(scores[u] - largest);
  const float sum = lane_sum(n, [&](std::int64_t u) { return scores[u]; });
  const float inverse = 1.0F / sum;
  for (std::int64_t u = 0; u < n; ++u) scores[u] *= inverse;
  std::fill(scores + n, scores + keys, 0.0F);
  return largest + std::log(sum);
}

}  // namespace orrery::engine
