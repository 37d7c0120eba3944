#include "engine/operators/rotate.h"

#include <cmath>
#include <cstddef>
#include <vector>

namespace orrery::engine {

void rotate(const core::Rotate& op, float* qkv) {
  const std::int64_t half = op.head_dim / 2;
  const std::int64_t width = static_cast<std::int64_t>(op.heads + 2 * op.kv_heads) * op.head_dim;
  std::vector<float> cosines(static_cast<std::size_t>(half));
  std::vector<float> sines(static_cast<std::size_t>(half));
  std::vector<double> frequencies(static_cast<std::size_t>(half));
  for (std::int64_t i = 0; i < half; ++i) {
    frequencies[static_cast<std::size_t>(i)] =
        std::pow(op.theta, -2.0 * static_cast<double>(i) / op.head_dim);
  }
  for (std::int64_t p = 0; p < op.sequence; ++p) {
    for (std::size_t i = 0; i < frequencies.size(); ++i) {
      const double angle = (op.inverse ? -1.0 : 1.0) * static_cast<double>(p) * frequencies[i];
      cosines[i] = static_cast<float>(std::cos(angle));
      sines[i] = static_cast<float>(std::sin(angle));
    }
    const float* c = cosines.data();
    const float* s = sines.data();
    for (std::int64_t q = 0; q < op.sequences; ++q) {
      float* row = qkv + (q * op.sequence + p) * width;
      for (int h = 0; h < op.heads + op.kv_heads; ++h) {
        float* a = row + static_cast<std::int64_t>(h) * op.head_dim;
        float* b = a + half;
        for (std::int64_t i = 0; i < half; ++i) {
          const float low = a[i];
          const float high = b[i];
          a[i] = low * c[i] - high * s[i];
          b[i] = high * c[i] + low * s[i];
        }
      }
    }
  }
}

}  // namespace orrery::engine
