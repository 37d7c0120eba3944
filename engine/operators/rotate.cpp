#include "engine/operators/rotate.h"

#include <cmath>

namespace orrery::engine {

namespace {

void rotate_head(std::int64_t half, const float* cosines, const float* sines, float sign,
                 float* head) {
  float* a = head;
  float* b = head + half;
  for (std::int64_t i = 0; i < half; ++i) {
    const float low = a[i];
    const float high = b[i];
    const float sine = sign * sines[i];
    a[i] = low * cosines[i] - high * sine;
    b[i] = high * cosines[i] + low * sine;
  }
}

}  // namespace

RotationTable rotation_table(const core::Rotate& op, int context_position) {
  RotationTable table{op, {}, {}};
  for (std::int64_t t = 0; t < op.sequence; ++t) {
    const std::int64_t p = core::sequence_position(op.part, context_position, op.sequence, t);
    for (int i = 0; i < op.head_dim / 2; ++i) {
      const double angle = static_cast<double>(p) * std::pow(op.theta, -2.0 * i / op.head_dim);
      table.cosines.push_back(static_cast<float>(std::cos(angle)));
      table.sines.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  return table;
}

void rotate(const core::Rotate& op, const RotationTable& table, float* qkv) {
  const std::int64_t half = op.head_dim / 2;
  const std::int64_t width = static_cast<std::int64_t>(op.heads + 2 * op.kv_heads) * op.head_dim;
  const float sign = op.inverse ? -1.0F : 1.0F;
  for (std::int64_t t = 0; t < op.sequences * op.sequence; ++t) {
    const std::int64_t at = t % op.sequence * half;
    for (int h = 0; h < op.heads + op.kv_heads; ++h) {
      rotate_head(half, table.cosines.data() + at, table.sines.data() + at, sign,
                  qkv + t * width + static_cast<std::int64_t>(h) * op.head_dim);
    }
  }
}

}  // namespace orrery::engine
