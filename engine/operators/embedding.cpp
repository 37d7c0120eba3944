#include "engine/operators/embedding.h"

#include <algorithm>

namespace orrery::engine {

namespace {
void add_row(std::int64_t n, const float* from, float* to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] += from[i];
}
}  // namespace

void embed(const core::Embed& op, std::int64_t first_row, const std::int32_t* tokens,
           const float* wte, const float* wpe, const float* wtt, float* x, int context_position) {
  const std::int64_t n = op.hidden;
  for (std::int64_t t = 0; t < op.tokens; ++t) {
    float* row = x + t * n;
    const std::int64_t at = tokens[t] - first_row;
    if (at >= 0 && at < op.vocab_rows) {
      std::copy_n(wte + at * n, n, row);
    } else {
      std::fill_n(row, n, 0.0F);
    }
    if (wpe != nullptr) {
      const std::int64_t position =
          core::sequence_position(op.part, context_position, op.sequence, t % op.sequence);
      add_row(n, wpe + position * n, row);
    }
    if (wtt != nullptr) add_row(n, wtt, row);
  }
}

void embed_grad(const core::EmbedGrad& op, std::int64_t first_row, const std::int32_t* tokens,
                const float* dx, float* dwte, float* dwpe, float* dwtt, int context_position) {
  const std::int64_t n = op.hidden;
  for (std::int64_t t = 0; t < op.tokens; ++t) {
    const float* row = dx + t * n;
    const std::int64_t at = tokens[t] - first_row;
    if (at >= 0 && at < op.vocab_rows) add_row(n, row, dwte + at * n);
    if (dwpe != nullptr) {
      const std::int64_t position =
          core::sequence_position(op.part, context_position, op.sequence, t % op.sequence);
      add_row(n, row, dwpe + position * n);
    }
    if (dwtt != nullptr) add_row(n, row, dwtt);
  }
}

}  // namespace orrery::engine
