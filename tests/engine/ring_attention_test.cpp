// All steps on all ranks of a ring, against attention over the whole sequence.

#include "engine/operators/ring_attention.h"

#include <gtest/gtest.h>

#include "engine/operators/attention.h"
#include "tests/engine/operator_oracle.h"

namespace orrery::engine {
namespace {

struct Ring {
  std::int64_t sequences, sequence;  ///< Of one rank.
  int heads, kv_heads, head_dim, ways;

  std::int64_t whole() const { return sequence * ways; }
  core::SequencePart part() const { return {ways, true}; }
};

/// The rows of all of `whole` that the rank at position p holds, or back.
Values rows_of(const Ring& ring, int p, const Values& whole, std::size_t width) {
  Values rows;
  for (std::int64_t s = 0; s < ring.sequences; ++s) {
    for (std::int64_t t = 0; t < ring.sequence; ++t) {
      const auto row = static_cast<std::size_t>(
          s * ring.whole() + core::sequence_position(ring.part(), p, ring.sequence, t));
      rows.insert(rows.end(), whole.begin() + static_cast<std::ptrdiff_t>(row * width),
                  whole.begin() + static_cast<std::ptrdiff_t>((row + 1) * width));
    }
  }
  return rows;
}

class RingOfRanks {
 public:
  RingOfRanks(const Ring& ring, const Values& qkv, const Values& dout)
      : ring_(ring),
        qkv_width_(static_cast<std::size_t>((ring.heads + 2 * ring.kv_heads) * ring.head_dim)),
        out_width_(static_cast<std::size_t>(ring.heads * ring.head_dim)) {
    const auto rows = static_cast<std::size_t>(ring.sequences * ring.sequence);
    for (int p = 0; p < ring.ways; ++p) {
      qkv_.push_back(rows_of(ring, p, qkv, qkv_width_));
      dout_.push_back(rows_of(ring, p, dout, out_width_));
      kv_.emplace_back(rows * kv_width());
      copy_columns({static_cast<std::int64_t>(rows), static_cast<std::int64_t>(qkv_width_),
                    static_cast<std::int64_t>(out_width_), static_cast<std::int64_t>(kv_width()), 0,
                    static_cast<std::int64_t>(kv_width())},
                   qkv_.back().data(), kv_.back().data());
      out_.emplace_back(rows * out_width_, 9.0F);
      lse_.emplace_back(rows * static_cast<std::size_t>(ring.heads), 9.0F);
      dqkv_.emplace_back(rows * qkv_width_, 9.0F);
      dkv_.emplace_back(rows * kv_width(), 9.0F);
    }
  }

  void run() {
    for (int step = 0; step < ring_.ways; ++step) {
      for (int p = 0; p < ring_.ways; ++p) {
        ring_attention({ring_.sequences, ring_.sequence, ring_.heads, ring_.kv_heads,
                        ring_.head_dim, ring_.ways, step},
                       p, at(qkv_, p), at(kv_, from(p, step)), at(out_, p), at(lse_, p),
                       workspace_);
      }
    }
    for (int step = 0; step < ring_.ways; ++step) {
      for (int p = 0; p < ring_.ways; ++p) {
        ring_attention_grad({ring_.sequences, ring_.sequence, ring_.heads, ring_.kv_heads,
                             ring_.head_dim, ring_.ways, step},
                            p, at(dout_, p), at(qkv_, p), at(kv_, from(p, step)), at(out_, p),
                            at(lse_, p), at(dqkv_, p), at(dkv_, from(p, step)), workspace_);
      }
    }
    for (int p = 0; p < ring_.ways; ++p) {
      copy_columns({ring_.sequences * ring_.sequence, static_cast<std::int64_t>(kv_width()), 0,
                    static_cast<std::int64_t>(qkv_width_), static_cast<std::int64_t>(out_width_),
                    static_cast<std::int64_t>(kv_width())},
                   at(dkv_, p), at(dqkv_, p));
    }
  }

  const Values& out(int p) const { return out_[static_cast<std::size_t>(p)]; }
  const Values& dqkv(int p) const { return dqkv_[static_cast<std::size_t>(p)]; }
  std::size_t qkv_width() const { return qkv_width_; }
  std::size_t out_width() const { return out_width_; }

 private:
  std::size_t kv_width() const {
    return static_cast<std::size_t>(2 * ring_.kv_heads * ring_.head_dim);
  }
  int from(int p, int step) const { return (p - step + ring_.ways) % ring_.ways; }
  static float* at(std::vector<Values>& values, int p) {
    return values[static_cast<std::size_t>(p)].data();
  }

  Ring ring_;
  std::size_t qkv_width_, out_width_;
  std::vector<Values> qkv_, dout_, kv_, out_, lse_, dqkv_, dkv_;
  Workspace workspace_;
};

// Two and three ranks, several blocks of rows, grouped queries or not.
TEST(RingAttention, GivesTheAttentionOfTheWholeSequence) {
  for (const Ring& ring : {Ring{2, 4, 2, 2, 3, 2}, Ring{1, 150, 4, 2, 5, 2}, Ring{2, 6, 2, 1, 4, 3},
                           Ring{1, 2, 1, 1, 2, 4}}) {
    const auto rows = static_cast<std::size_t>(ring.sequences * ring.whole());
    const core::Attention op{ring.sequences, ring.whole(),  ring.heads,
                             ring.kv_heads,  ring.head_dim, true};
    const auto out_width = static_cast<std::size_t>(ring.heads * ring.head_dim);
    const auto qkv_width =
        static_cast<std::size_t>((ring.heads + 2 * ring.kv_heads) * ring.head_dim);
    const Values qkv = random_values(rows * qkv_width, 5),
                 dout = random_values(rows * out_width, 6);
    Values out(rows * out_width), lse(rows * static_cast<std::size_t>(ring.heads)),
        dqkv(qkv.size());
    Workspace workspace;
    attention(op, qkv.data(), out.data(), lse.data(), workspace);
    attention_grad({op.sequences, op.sequence, op.heads, op.kv_heads, op.head_dim, true},
                   dout.data(), qkv.data(), out.data(), lse.data(), dqkv.data(), workspace);
    RingOfRanks ranks(ring, qkv, dout);
    ranks.run();
    for (int p = 0; p < ring.ways; ++p) {
      expect_near(ranks.out(p), rows_of(ring, p, out, out_width), 1e-5F);
      expect_near(ranks.dqkv(p), rows_of(ring, p, dqkv, qkv_width), 5e-5F);
    }
  }
}

// The steps' pairs add up to the causal half of the whole sequence, shared evenly by the ranks:
// ways · Σ_steps = n(n+1)/2 for n = ways · sequence. Two products of 2·d flops each.
TEST(RingAttention, WorkIsTheCausalHalf) {
  for (const int ways : {2, 4}) {
    double flops = 0.0;
    for (int step = 0; step < ways; ++step) {
      flops += core::work_of(core::RingAttention{1, 8, 1, 1, 16, ways, step}, 4).matmul.value;
    }
    const double n = 8.0 * ways;
    EXPECT_DOUBLE_EQ(ways * flops, 4.0 * 16 * n * (n + 1) / 2);
  }
}

}  // namespace
}  // namespace orrery::engine
