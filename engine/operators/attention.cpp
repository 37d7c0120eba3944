#include "engine/operators/attention.h"

#include <algorithm>
#include <cmath>

#include "engine/operators/matmul.h"
#include "engine/operators/vector_math.h"

namespace orrery::engine {

namespace {

// Query rows per block: enough for the matrix products, and little is computed above the diagonal.
constexpr std::int64_t kBlock = 64;

// One head of one sequence within qkv-shaped and out-shaped memory.
struct Head {
  std::int64_t sequence, head_dim;
  std::int64_t qkv_stride, out_stride;
  std::int64_t q, k, v, out;  // Offsets of row 0.
  bool causal;
  float scale;

  // Keys that any row of the block looks at.
  std::int64_t keys(std::int64_t first, std::int64_t rows) const {
    return causal ? std::min(sequence, first + rows) : sequence;
  }
  // Keys that one row looks at.
  std::int64_t keys_of(std::int64_t row) const { return causal ? row + 1 : sequence; }
};

template <class Op>
Head head_of(const Op& op, std::int64_t s, int h) {
  const std::int64_t d = op.head_dim;
  Head head{};
  head.sequence = op.sequence;
  head.head_dim = d;
  head.qkv_stride = static_cast<std::int64_t>(op.heads + 2 * op.kv_heads) * d;
  head.out_stride = op.heads * d;
  const std::int64_t kv = h / (op.heads / op.kv_heads);
  const std::int64_t row = s * op.sequence;
  head.q = row * head.qkv_stride + h * d;
  head.k = row * head.qkv_stride + (op.heads + kv) * d;
  head.v = row * head.qkv_stride + (op.heads + op.kv_heads + kv) * d;
  head.out = row * head.out_stride + h * d;
  head.causal = op.causal;
  head.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(d)));
  return head;
}

// scores[rows, keys] = scale · q_block · kᵀ.
void block_scores(const Head& head, const float* qkv, std::int64_t first, std::int64_t rows,
                  std::int64_t keys, float* scores) {
  matmul(rows, keys, head.head_dim, head.scale,
         {qkv + head.q + first * head.qkv_stride, head.qkv_stride},
         {qkv + head.k, head.qkv_stride, true}, 0.0F, scores, keys);
}

void forward_head(const Head& head, const float* qkv, float* out, float* log_sum_exp,
                  float* scores) {
  for (std::int64_t first = 0; first < head.sequence; first += kBlock) {
    const std::int64_t rows = std::min(kBlock, head.sequence - first);
    const std::int64_t keys = head.keys(first, rows);
    block_scores(head, qkv, first, rows, keys, scores);
    for (std::int64_t r = 0; r < rows; ++r) {
      log_sum_exp[first + r] = softmax_row(scores + r * keys, head.keys_of(first + r), keys);
    }
    matmul(rows, head.head_dim, keys, 1.0F, {scores, keys}, {qkv + head.v, head.qkv_stride}, 0.0F,
           out + head.out + first * head.out_stride, head.out_stride);
  }
}

// Turns a row of scores into P and a row of dP into dS, in place.
void softmax_grad_row(float* p, float* ds, std::int64_t n, std::int64_t keys, float log_sum_exp,
                      float d) {
  for (std::int64_t u = 0; u < n; ++u) {
    p[u] = exp_float(p[u] - log_sum_exp);
    ds[u] = p[u] * (ds[u] - d);
  }
  std::fill(p + n, p + keys, 0.0F);
  std::fill(ds + n, ds + keys, 0.0F);
}

struct BackwardOperands {
  const float* dout;
  const float* qkv;
  const float* out;
  float* dqkv;
};

// Adds to dk and dv, writes dq.
void backward_head(const Head& head, const BackwardOperands& at, const float* log_sum_exp,
                   float* scratch) {
  for (std::int64_t first = 0; first < head.sequence; first += kBlock) {
    const std::int64_t rows = std::min(kBlock, head.sequence - first);
    const std::int64_t keys = head.keys(first, rows);
    float* p = scratch;
    float* ds = scratch + kBlock * head.sequence;
    const float* dout = at.dout + head.out + first * head.out_stride;
    const float* out = at.out + head.out + first * head.out_stride;
    const MatrixView dout_block{dout, head.out_stride};
    block_scores(head, at.qkv, first, rows, keys, p);
    matmul(rows, keys, head.head_dim, 1.0F, dout_block, {at.qkv + head.v, head.qkv_stride, true},
           0.0F, ds, keys);
    for (std::int64_t r = 0; r < rows; ++r) {
      const float d = lane_sum(head.head_dim, [&](std::int64_t i) {
        return dout[r * head.out_stride + i] * out[r * head.out_stride + i];
      });
      softmax_grad_row(p + r * keys, ds + r * keys, head.keys_of(first + r), keys,
                       log_sum_exp[first + r], d);
    }
    matmul(keys, head.head_dim, rows, 1.0F, {p, keys, true}, dout_block, 1.0F, at.dqkv + head.v,
           head.qkv_stride);
    matmul(rows, head.head_dim, keys, head.scale, {ds, keys}, {at.qkv + head.k, head.qkv_stride},
           0.0F, at.dqkv + head.q + first * head.qkv_stride, head.qkv_stride);
    matmul(keys, head.head_dim, rows, head.scale, {ds, keys, true},
           {at.qkv + head.q + first * head.qkv_stride, head.qkv_stride}, 1.0F, at.dqkv + head.k,
           head.qkv_stride);
  }
}

}  // namespace

void attention(const core::Attention& op, const float* qkv, float* out, float* log_sum_exp,
               Workspace& workspace) {
  float* scores = workspace.floats(kBlock * op.sequence);
  for (std::int64_t s = 0; s < op.sequences; ++s) {
    for (int h = 0; h < op.heads; ++h) {
      forward_head(head_of(op, s, h), qkv, out, log_sum_exp + (s * op.heads + h) * op.sequence,
                   scores);
    }
  }
}

void attention_grad(const core::AttentionGrad& op, const float* dout, const float* qkv,
                    const float* out, const float* log_sum_exp, float* dqkv, Workspace& workspace) {
  float* scratch = workspace.floats(2 * kBlock * op.sequence);
  const std::int64_t width = static_cast<std::int64_t>(op.heads + 2 * op.kv_heads) * op.head_dim;
  std::fill_n(dqkv, op.sequences * op.sequence * width, 0.0F);
  for (std::int64_t s = 0; s < op.sequences; ++s) {
    for (int h = 0; h < op.heads; ++h) {
      backward_head(head_of(op, s, h), {dout, qkv, out, dqkv},
                    log_sum_exp + (s * op.heads + h) * op.sequence, scratch);
    }
  }
}

}  // namespace orrery::engine
