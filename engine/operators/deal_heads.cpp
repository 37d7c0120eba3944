#include "engine/operators/deal_heads.h"

#include <algorithm>

namespace orrery::engine {

void deal_heads(const core::DealHeads& op, const float* in, float* out) {
  const std::int64_t d = op.head_dim;
  const std::int64_t widths[] = {op.heads * d, op.kv_heads * d, op.kv_heads * d};
  const std::int64_t width = widths[0] + 2 * widths[1];
  for (std::int64_t part = 0; part < op.parts; ++part) {
    for (std::int64_t r = 0; r < op.rows; ++r) {
      std::int64_t dealt = (part * op.rows + r) * (width / op.parts);
      std::int64_t block = r * width;
      for (const std::int64_t w : widths) {
        const std::int64_t n = w / op.parts;
        const std::int64_t row = block + part * n;
        std::copy_n(in + (op.inverse ? dealt : row), n, out + (op.inverse ? row : dealt));
        dealt += n;
        block += w;
      }
    }
  }
}

void join_sequences(const core::JoinSequences& op, const float* in, float* out) {
  const std::int64_t n = op.sequence / op.parts * op.width;
  for (std::int64_t part = 0; part < op.parts; ++part) {
    for (std::int64_t s = 0; s < op.sequences; ++s) {
      const std::int64_t cut = (part * op.sequences + s) * n;
      const std::int64_t joined = (s * op.parts + part) * n;
      std::copy_n(in + (op.inverse ? joined : cut), n, out + (op.inverse ? cut : joined));
    }
  }
}

}  // namespace orrery::engine
