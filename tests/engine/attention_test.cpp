// Against the oracle's float64 results and, at odd sizes, against a plain twin.

#include "engine/operators/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/engine/operator_oracle.h"

namespace orrery::engine {
namespace {

TEST(Attention, AgreesWithTheOracle) {
  const Values qkv = given("attention_causal.in.qkv"), dout = given("attention_causal.dout");
  Values out(51 * 48), lse(3 * 4 * 17), dqkv(51 * 144);
  Workspace workspace;
  attention({3, 17, 4, 4, 12, true}, qkv.data(), out.data(), lse.data(), workspace);
  attention_grad({3, 17, 4, 4, 12, true}, dout.data(), qkv.data(), out.data(), lse.data(),
                 dqkv.data(), workspace);
  expect_near(out, given("attention_causal.out"));
  expect_near(dqkv, given("attention_causal.grad.qkv"));
}

// softmax(q·kᵀ/√d)·v in double, one row at a time.
Values plain_attention(const core::Attention& op, const Values& qkv) {
  const std::int64_t d = op.head_dim, width = (op.heads + 2 * op.kv_heads) * d;
  Values out(static_cast<std::size_t>(op.sequences * op.sequence * op.heads * d));
  const auto at = [&](std::int64_t s, std::int64_t t, std::int64_t column) {
    return static_cast<double>(
        qkv[static_cast<std::size_t>((s * op.sequence + t) * width + column)]);
  };
  for (std::int64_t s = 0; s < op.sequences; ++s) {
    for (std::int64_t h = 0; h < op.heads; ++h) {
      const std::int64_t kv = h / (op.heads / op.kv_heads);
      for (std::int64_t t = 0; t < op.sequence; ++t) {
        const std::int64_t keys = op.causal ? t + 1 : op.sequence;
        std::vector<double> p(static_cast<std::size_t>(keys));
        double sum = 0.0;
        for (std::int64_t u = 0; u < keys; ++u) {
          double score = 0.0;
          for (std::int64_t i = 0; i < d; ++i) {
            score += at(s, t, h * d + i) * at(s, u, (op.heads + kv) * d + i);
          }
          p[static_cast<std::size_t>(u)] = std::exp(score / std::sqrt(static_cast<double>(d)));
          sum += p[static_cast<std::size_t>(u)];
        }
        for (std::int64_t i = 0; i < d; ++i) {
          double value = 0.0;
          for (std::int64_t u = 0; u < keys; ++u) {
            value += p[static_cast<std::size_t>(u)] / sum *
                     at(s, u, (op.heads + op.kv_heads + kv) * d + i);
          }
          out[static_cast<std::size_t>(((s * op.sequence + t) * op.heads + h) * d + i)] =
              static_cast<float>(value);
        }
      }
    }
  }
  return out;
}

// Grouped queries, several blocks of query rows, causal or not, odd sizes.
TEST(Attention, AgreesWithItsPlainTwin) {
  const core::Attention ops[] = {{2, 150, 4, 2, 5, true},
                                 {1, 64, 3, 1, 8, true},
                                 {1, 65, 2, 2, 3, false},
                                 {1, 1, 1, 1, 1, true}};
  for (const core::Attention& op : ops) {
    const auto rows = static_cast<std::size_t>(op.sequences * op.sequence);
    const auto heads = static_cast<std::size_t>(op.heads);
    const auto d = static_cast<std::size_t>(op.head_dim);
    const Values qkv =
        random_values(rows * (heads + 2 * static_cast<std::size_t>(op.kv_heads)) * d, 9);
    Values out(rows * heads * d), lse(rows * heads);
    Workspace workspace;
    attention(op, qkv.data(), out.data(), lse.data(), workspace);
    expect_near(out, plain_attention(op, qkv), 5e-6F);
  }
}

// dqkv is the numerical gradient of the plain twin.
TEST(Attention, HasTheGradientOfItsPlainTwin) {
  const core::Attention ops[] = {{1, 9, 4, 2, 3, true}, {1, 7, 2, 1, 4, false}};
  for (const core::Attention& op : ops) {
    const auto rows = static_cast<std::size_t>(op.sequences * op.sequence);
    const auto out_width = static_cast<std::size_t>(op.heads * op.head_dim);
    const Values qkv = random_values(
        rows * static_cast<std::size_t>((op.heads + 2 * op.kv_heads) * op.head_dim), 10);
    const Values dout = random_values(rows * out_width, 11);
    Values out(rows * out_width), lse(rows * static_cast<std::size_t>(op.heads)), dqkv(qkv.size());
    Workspace workspace;
    attention(op, qkv.data(), out.data(), lse.data(), workspace);
    attention_grad({op.sequences, op.sequence, op.heads, op.kv_heads, op.head_dim, op.causal},
                   dout.data(), qkv.data(), out.data(), lse.data(), dqkv.data(), workspace);
    expect_gradient([&](const Values& at) { return dot(plain_attention(op, at), dout); }, qkv, dqkv,
                    2e-3);
  }
}

}  // namespace
}  // namespace orrery::engine
