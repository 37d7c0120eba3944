#include "engine/operators/plain_attention.h"

#include <algorithm>
#include <cmath>

#include "engine/operators/matmul.h"
#include "engine/operators/vector_math.h"

namespace orrery::engine {

namespace {

// One head of one sequence: where its matrices [sequence, ..] begin, and the distance of their rows.
struct Head {
  std::int64_t sequence, d, qkv_stride, out_stride;
  std::int64_t q, k, v, out, scores;
  bool first_of_keys;  // Of the query heads that share keys and values.
  float scale;
};

template <class Op, class Visit>
void for_each_head(const Op& op, const Visit& visit) {
  const std::int64_t d = op.head_dim;
  const int sharing = op.heads / op.kv_heads;
  Head head{};
  head.sequence = op.sequence;
  head.d = d;
  head.qkv_stride = static_cast<std::int64_t>(op.heads + 2 * op.kv_heads) * d;
  head.out_stride = op.heads * d;
  head.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(d)));
  for (std::int64_t s = 0; s < op.sequences; ++s) {
    for (int h = 0; h < op.heads; ++h) {
      const std::int64_t row = s * op.sequence;
      head.q = row * head.qkv_stride + h * d;
      head.k = row * head.qkv_stride + (op.heads + h / sharing) * d;
      head.v = head.k + op.kv_heads * d;
      head.out = row * head.out_stride + h * d;
      head.scores = (s * op.heads + h) * op.sequence * op.sequence;
      head.first_of_keys = h % sharing == 0;
      visit(head);
    }
  }
}

}  // namespace

void attention_scores(const core::AttentionScores& op, const float* qkv, float* scores) {
  for_each_head(op, [&](const Head& h) {
    matmul(h.sequence, h.sequence, h.d, h.scale, {qkv + h.q, h.qkv_stride},
           {qkv + h.k, h.qkv_stride, true}, 0.0F, scores + h.scores, h.sequence);
  });
}

void softmax(const core::Softmax& op, float* scores) {
  const std::int64_t rows = op.sequences * op.heads * op.sequence;
  for (std::int64_t r = 0; r < rows; ++r) {
    float* row = scores + r * op.sequence;
    const std::int64_t n = op.causal ? r % op.sequence + 1 : op.sequence;
    const float largest = lane_max(row, n, row[0]);
    for (std::int64_t u = 0; u < n; ++u) row[u] = exp_float(row[u] - largest);
    const float inverse = 1.0F / lane_sum(n, [&](std::int64_t u) { return row[u]; });
    for (std::int64_t u = 0; u < n; ++u) row[u] *= inverse;
    std::fill(row + n, row + op.sequence, 0.0F);
  }
}

void attention_context(const core::AttentionContext& op, const float* p, const float* qkv,
                       float* out) {
  for_each_head(op, [&](const Head& h) {
    matmul(h.sequence, h.d, h.sequence, 1.0F, {p + h.scores, h.sequence}, {qkv + h.v, h.qkv_stride},
           0.0F, out + h.out, h.out_stride);
  });
}

void attention_context_grad(const core::AttentionContextGrad& op, const float* dout, const float* p,
                            const float* qkv, float* dp, float* dqkv) {
  for_each_head(op, [&](const Head& h) {
    matmul(h.sequence, h.sequence, h.d, 1.0F, {dout + h.out, h.out_stride},
           {qkv + h.v, h.qkv_stride, true}, 0.0F, dp + h.scores, h.sequence);
    matmul(h.sequence, h.d, h.sequence, 1.0F, {p + h.scores, h.sequence, true},
           {dout + h.out, h.out_stride}, h.first_of_keys ? 0.0F : 1.0F, dqkv + h.v, h.qkv_stride);
  });
}

void softmax_grad(const core::SoftmaxGrad& op, const float* p, float* dp) {
  const std::int64_t n = op.sequence;
  const std::int64_t rows = op.sequences * op.heads * n;
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* probability = p + r * n;
    float* row = dp + r * n;
    const float sum = lane_sum(n, [&](std::int64_t u) { return probability[u] * row[u]; });
    for (std::int64_t u = 0; u < n; ++u) row[u] = probability[u] * (row[u] - sum);
  }
}

void attention_scores_grad(const core::AttentionScoresGrad& op, const float* ds, const float* qkv,
                           float* dqkv) {
  for_each_head(op, [&](const Head& h) {
    matmul(h.sequence, h.d, h.sequence, h.scale, {ds + h.scores, h.sequence},
           {qkv + h.k, h.qkv_stride}, 0.0F, dqkv + h.q, h.qkv_stride);
    matmul(h.sequence, h.d, h.sequence, h.scale, {ds + h.scores, h.sequence, true},
           {qkv + h.q, h.qkv_stride}, h.first_of_keys ? 0.0F : 1.0F, dqkv + h.k, h.qkv_stride);
  });
}

}  // namespace orrery::engine
