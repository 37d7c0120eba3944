#include "engine/operators/ring_attention.h"

#include <algorithm>
#include <cmath>

#include "engine/operators/matmul.h"
#include "engine/operators/vector_math.h"

namespace orrery::engine {

namespace {

// Query rows per block, as in attention.
constexpr std::int64_t kBlock = 64;

// One head of one sequence: where its rows begin, and the distance of rows.
struct Head {
  std::int64_t sequence, d, qkv_stride, kv_stride, out_stride;
  std::int64_t q, k, v, out, log_sum_exp;
  float scale;
  core::SequencePart part;
  int here, from;  // Context positions of the queries and of the keys.

  // Keys that row t sees: they ascend, so the first ones.
  std::int64_t keys_of(std::int64_t t) const {
    const std::int64_t position = core::sequence_position(part, here, sequence, t);
    std::int64_t below = 0;
    std::int64_t above = sequence;
    while (below < above) {
      const std::int64_t middle = (below + above) / 2;
      if (core::sequence_position(part, from, sequence, middle) <= position) {
        below = middle + 1;
      } else {
        above = middle;
      }
    }
    return below;
  }
};

template <class Op, class Visit>
void for_each_head(const Op& op, int context_position, const Visit& visit) {
  const std::int64_t d = op.head_dim;
  Head head{};
  head.sequence = op.sequence;
  head.d = d;
  head.qkv_stride = static_cast<std::int64_t>(op.heads + 2 * op.kv_heads) * d;
  head.kv_stride = 2 * op.kv_heads * d;
  head.out_stride = op.heads * d;
  head.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(d)));
  head.part = {op.ways, true};
  head.here = context_position;
  head.from = (context_position - op.step + op.ways) % op.ways;
  for (std::int64_t s = 0; s < op.sequences; ++s) {
    for (int h = 0; h < op.heads; ++h) {
      const std::int64_t row = s * op.sequence;
      const std::int64_t kv_head = h / (op.heads / op.kv_heads);
      head.q = row * head.qkv_stride + h * d;
      head.k = row * head.kv_stride + kv_head * d;
      head.v = head.k + op.kv_heads * d;
      head.out = row * head.out_stride + h * d;
      head.log_sum_exp = (s * op.heads + h) * op.sequence;
      visit(head);
    }
  }
}

// Rows first .. first + rows − 1 with the keys that the last of them, which sees most, sees.
template <class Visit>
void for_each_block(const Head& head, const Visit& visit) {
  for (std::int64_t first = 0; first < head.sequence; first += kBlock) {
    const std::int64_t rows = std::min(kBlock, head.sequence - first);
    const std::int64_t keys = head.keys_of(first + rows - 1);
    visit(first, rows, keys);
  }
}

void block_scores(const Head& head, const float* qkv, const float* kv, std::int64_t first,
                  std::int64_t rows, std::int64_t keys, float* scores) {
  matmul(rows, keys, head.d, head.scale, {qkv + head.q + first * head.qkv_stride, head.qkv_stride},
         {kv + head.k, head.kv_stride, true}, 0.0F, scores, keys);
}

// Joins a row's partial output to what the steps before gave.
void join_row(std::int64_t d, const float* partial, float partial_lse, float* out, float& lse) {
  const float largest = std::max(lse, partial_lse);
  const float both = largest + std::log(std::exp(lse - largest) + std::exp(partial_lse - largest));
  const float before = std::exp(lse - both);
  const float now = std::exp(partial_lse - both);
  for (std::int64_t i = 0; i < d; ++i) out[i] = out[i] * before + partial[i] * now;
  lse = both;
}

void forward_block(const Head& head, bool first_step, const float* qkv, const float* kv,
                   std::int64_t first, std::int64_t rows, std::int64_t keys, float* out,
                   float* log_sum_exp, float* scratch) {
  if (keys == 0) return;
  float* scores = scratch;
  float* partial = scratch + kBlock * head.sequence;
  float lse[kBlock];
  block_scores(head, qkv, kv, first, rows, keys, scores);
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t n = head.keys_of(first + r);
    if (n == 0) {
      std::fill_n(scores + r * keys, keys, 0.0F);
    } else {
      lse[r] = softmax_row(scores + r * keys, n, keys);
    }
  }
  matmul(rows, head.d, keys, 1.0F, {scores, keys}, {kv + head.v, head.kv_stride}, 0.0F, partial,
         head.d);
  for (std::int64_t r = 0; r < rows; ++r) {
    if (head.keys_of(first + r) == 0) continue;
    float* row = out + head.out + (first + r) * head.out_stride;
    float& row_lse = log_sum_exp[head.log_sum_exp + first + r];
    if (first_step) {
      std::copy_n(partial + r * head.d, head.d, row);
      row_lse = lse[r];
    } else {
      join_row(head.d, partial + r * head.d, lse[r], row, row_lse);
    }
  }
}

struct BackwardOperands {
  const float *dout, *qkv, *kv, *out, *log_sum_exp;
  float *dqkv, *dkv;
};

void backward_block(const Head& head, const BackwardOperands& at, std::int64_t first,
                    std::int64_t rows, std::int64_t keys, float* scratch) {
  if (keys == 0) return;
  float* p = scratch;
  float* ds = scratch + kBlock * head.sequence;
  const float* dout = at.dout + head.out + first * head.out_stride;
  const float* out = at.out + head.out + first * head.out_stride;
  block_scores(head, at.qkv, at.kv, first, rows, keys, p);
  matmul(rows, keys, head.d, 1.0F, {dout, head.out_stride}, {at.kv + head.v, head.kv_stride, true},
         0.0F, ds, keys);
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t n = head.keys_of(first + r);
    const float lse = at.log_sum_exp[head.log_sum_exp + first + r];
    const float d = lane_sum(head.d, [&](std::int64_t i) {
      return dout[r * head.out_stride + i] * out[r * head.out_stride + i];
    });
    for (std::int64_t u = 0; u < n; ++u) {
      p[r * keys + u] = exp_float(p[r * keys + u] - lse);
      ds[r * keys + u] = p[r * keys + u] * (ds[r * keys + u] - d);
    }
    std::fill(p + r * keys + n, p + (r + 1) * keys, 0.0F);
    std::fill(ds + r * keys + n, ds + (r + 1) * keys, 0.0F);
  }
  matmul(keys, head.d, rows, 1.0F, {p, keys, true}, {dout, head.out_stride}, 1.0F, at.dkv + head.v,
         head.kv_stride);
  matmul(rows, head.d, keys, head.scale, {ds, keys}, {at.kv + head.k, head.kv_stride}, 1.0F,
         at.dqkv + head.q + first * head.qkv_stride, head.qkv_stride);
  matmul(keys, head.d, rows, head.scale, {ds, keys, true},
         {at.qkv + head.q + first * head.qkv_stride, head.qkv_stride}, 1.0F, at.dkv + head.k,
         head.kv_stride);
}

}  // namespace

void ring_attention(const core::RingAttention& op, int context_position, const float* qkv,
                    const float* kv, float* out, float* log_sum_exp, Workspace& workspace) {
  float* scratch = workspace.floats(kBlock * (op.sequence + op.head_dim));
  for_each_head(op, context_position, [&](const Head& head) {
    for_each_block(head, [&](std::int64_t first, std::int64_t rows, std::int64_t keys) {
      forward_block(head, op.step == 0, qkv, kv, first, rows, keys, out, log_sum_exp, scratch);
    });
  });
}

void ring_attention_grad(const core::RingAttentionGrad& op, int context_position, const float* dout,
                         const float* qkv, const float* kv, const float* out,
                         const float* log_sum_exp, float* dqkv, float* dkv, Workspace& workspace) {
  float* scratch = workspace.floats(2 * kBlock * op.sequence);
  const std::int64_t rows = op.sequences * op.sequence;
  const std::int64_t width = static_cast<std::int64_t>(op.heads + 2 * op.kv_heads) * op.head_dim;
  if (op.step == 0) {
    for (std::int64_t r = 0; r < rows; ++r) {
      std::fill_n(dqkv + r * width, op.heads * op.head_dim, 0.0F);
    }
    std::fill_n(dkv, rows * 2 * op.kv_heads * op.head_dim, 0.0F);
  }
  for_each_head(op, context_position, [&](const Head& head) {
    for_each_block(head, [&](std::int64_t first, std::int64_t block, std::int64_t keys) {
      backward_block(head, {dout, qkv, kv, out, log_sum_exp, dqkv, dkv}, first, block, keys,
                     scratch);
    });
  });
}

void copy_columns(const core::CopyColumns& op, const float* x, float* y) {
  for (std::int64_t r = 0; r < op.rows; ++r) {
    std::copy_n(x + r * op.from_width + op.from, op.count, y + r * op.to_width + op.to);
  }
}

}  // namespace orrery::engine
