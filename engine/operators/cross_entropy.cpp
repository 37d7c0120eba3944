#include "engine/operators/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/operators/vector_math.h"

namespace orrery::engine {

namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

std::int64_t valid_columns(std::int64_t first_row, std::int64_t vocab_rows, std::int64_t vocab) {
  return std::clamp<std::int64_t>(vocab - first_row, 0, vocab_rows);
}

struct RowTotal {
  double log_sum_exp, target;
};

RowTotal combine(const float* statistics, std::int64_t rows, int ways, std::int64_t row) {
  const auto part = [&](int p) { return statistics + (p * rows + row) * 3; };
  float largest = kNone;
  float target = kNone;
  for (int p = 0; p < ways; ++p) {
    largest = std::max(largest, part(p)[0]);
    target = std::max(target, part(p)[2]);
  }
  double sum = 0.0;
  for (int p = 0; p < ways; ++p) {
    if (part(p)[1] == 0.0F) continue;
    sum += std::exp(static_cast<double>(part(p)[0]) - static_cast<double>(largest)) *
           static_cast<double>(part(p)[1]);
  }
  return {static_cast<double>(largest) + std::log(sum), static_cast<double>(target)};
}

}  // namespace

void cross_entropy_statistics(const core::CrossEntropyStatistics& op, std::int64_t first_row,
                              const float* logits, const std::int32_t* targets, float* statistics) {
  const std::int64_t columns = valid_columns(first_row, op.vocab_rows, op.vocab);
  for (std::int64_t r = 0; r < op.rows; ++r) {
    const float* x = logits + r * op.vocab_rows;
    float* out = statistics + 3 * r;
    const float largest = lane_max(x, columns, kNone);
    const std::int64_t target = targets[r] - first_row;
    out[0] = largest;
    out[1] = lane_sum(columns, [&](std::int64_t j) { return exp_float(x[j] - largest); });
    out[2] = targets[r] >= 0 && target >= 0 && target < columns ? x[target] : kNone;
  }
}

double cross_entropy_grad(const core::CrossEntropyGrad& op, std::int64_t first_row,
                          const float* statistics, const std::int32_t* targets, float* logits) {
  const std::int64_t columns = valid_columns(first_row, op.vocab_rows, op.vocab);
  const float scale = static_cast<float>(op.scale);
  double loss = 0.0;
  for (std::int64_t r = 0; r < op.rows; ++r) {
    float* x = logits + r * op.vocab_rows;
    if (targets[r] < 0) {
      std::fill_n(x, op.vocab_rows, 0.0F);
      continue;
    }
    const RowTotal total = combine(statistics, op.rows, op.vocab_ways, r);
    loss += total.log_sum_exp - total.target;
    const float log_sum_exp = static_cast<float>(total.log_sum_exp);
    for (std::int64_t j = 0; j < columns; ++j) x[j] = scale * exp_float(x[j] - log_sum_exp);
    std::fill(x + columns, x + op.vocab_rows, 0.0F);
    const std::int64_t target = targets[r] - first_row;
    if (target >= 0 && target < columns) x[target] -= scale;
  }
  return op.scale * loss;
}

}  // namespace orrery::engine
