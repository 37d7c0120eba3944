// Plain attention, operator by operator, against the attention that keeps no scores.

#include "engine/operators/plain_attention.h"

#include <gtest/gtest.h>

#include "engine/operators/attention.h"
#include "tests/engine/operator_oracle.h"

namespace orrery::engine {
namespace {

// Grouped queries or not, causal or not, odd sizes.
TEST(PlainAttention, AgreesWithAttentionForwardAndBackward) {
  const core::Attention ops[] = {{2, 15, 4, 2, 5, true},
                                 {1, 64, 3, 1, 8, true},
                                 {3, 7, 2, 2, 3, false},
                                 {1, 1, 1, 1, 1, true}};
  for (const core::Attention& op : ops) {
    const auto rows = static_cast<std::size_t>(op.sequences * op.sequence);
    const auto heads = static_cast<std::size_t>(op.heads);
    const auto out_width = heads * static_cast<std::size_t>(op.head_dim);
    const auto qkv_width = static_cast<std::size_t>((op.heads + 2 * op.kv_heads) * op.head_dim);
    const Values qkv = random_values(rows * qkv_width, 3),
                 dout = random_values(rows * out_width, 4);
    Values out(rows * out_width), lse(rows * heads), dqkv(qkv.size());
    Workspace workspace;
    attention(op, qkv.data(), out.data(), lse.data(), workspace);
    attention_grad({op.sequences, op.sequence, op.heads, op.kv_heads, op.head_dim, op.causal},
                   dout.data(), qkv.data(), out.data(), lse.data(), dqkv.data(), workspace);

    Values p(rows * heads * static_cast<std::size_t>(op.sequence), 9.0F), dp = p;
    Values plain_out(out.size(), 9.0F), plain_dqkv(qkv.size(), 9.0F);
    attention_scores({op.sequences, op.sequence, op.heads, op.kv_heads, op.head_dim}, qkv.data(),
                     p.data());
    softmax({op.sequences, op.sequence, op.heads, op.causal}, p.data());
    attention_context({op.sequences, op.sequence, op.heads, op.kv_heads, op.head_dim}, p.data(),
                      qkv.data(), plain_out.data());
    attention_context_grad({op.sequences, op.sequence, op.heads, op.kv_heads, op.head_dim},
                           dout.data(), p.data(), qkv.data(), dp.data(), plain_dqkv.data());
    softmax_grad({op.sequences, op.sequence, op.heads}, p.data(), dp.data());
    attention_scores_grad({op.sequences, op.sequence, op.heads, op.kv_heads, op.head_dim},
                          dp.data(), qkv.data(), plain_dqkv.data());
    expect_near(plain_out, out, 5e-6F);
    expect_near(plain_dqkv, dqkv, 2e-5F);
  }
}

}  // namespace
}  // namespace orrery::engine
