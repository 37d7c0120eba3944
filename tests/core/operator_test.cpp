#include "core/operator.h"

#include <gtest/gtest.h>

#include <set>

namespace orrery::core {
namespace {

TEST(OperatorName, FollowsTheOrderOfTheVariant) {
  EXPECT_EQ(operator_name(LoadTokens{}), "load_tokens");
  EXPECT_EQ(operator_name(LinearWeightGrad{}), "linear_weight_grad");
  EXPECT_EQ(operator_name(AttentionGrad{}), "attention_grad");
  EXPECT_EQ(operator_name(CrossEntropyGrad{}), "cross_entropy_grad");
  EXPECT_EQ(operator_name(OptimizerUpdate{}), "optimizer_update");
  EXPECT_EQ(operator_name(LoadSamples{}), "load_samples");
  EXPECT_EQ(operator_name(UpdateTable{}), "update_table");
}

TEST(OperatorName, IsDifferentForEachOperator) {
  const auto& names = operator_names();
  EXPECT_EQ(names.size(), std::variant_size_v<Operator>);
  EXPECT_EQ(std::set(names.begin(), names.end()).size(), names.size());
}

// y[10,30] = x[10,20]·wᵀ[30,20] + b[30]: 2·10·30·20 flops, 10·30 additions,
// (10·20 + 30·20 + 30 + 10·30) elements of 4 bytes.
TEST(WorkOf, LinearCountsTwoFlopsPerProduct) {
  const Work work = work_of(Linear{.rows = 10, .out = 30, .in = 20, .bias = true}, 4);
  EXPECT_DOUBLE_EQ(work.matmul.value, 2.0 * 10 * 30 * 20);
  EXPECT_DOUBLE_EQ(work.vector.value, 300);
  EXPECT_DOUBLE_EQ(work.memory.value, 4.0 * (200 + 600 + 30 + 300));
}

// Both gradients have the flops of the forward product. dw is accumulated: read and written.
TEST(WorkOf, LinearGradientsCostTheForwardProductEach) {
  const Work input =
      work_of(LinearInputGrad{.rows = 10, .out = 30, .in = 20, .accumulate = false}, 2);
  EXPECT_DOUBLE_EQ(input.matmul.value, 2.0 * 10 * 30 * 20);
  EXPECT_DOUBLE_EQ(input.memory.value, 2.0 * (300 + 600 + 200));
  const Work weight = work_of(LinearWeightGrad{.rows = 10, .out = 30, .in = 20, .bias = false}, 2);
  EXPECT_DOUBLE_EQ(weight.matmul.value, 2.0 * 10 * 30 * 20);
  EXPECT_DOUBLE_EQ(weight.memory.value, 2.0 * (300 + 200 + 2 * 600));
}

// Query t attends to t + 1 keys: 1 + 2 + .. + 8 = 36 pairs instead of 64. Two products of 2·d
// flops.
TEST(WorkOf, CausalAttentionCountsTheHalfThatIsComputed) {
  Attention attention{
      .sequences = 3, .sequence = 8, .heads = 4, .kv_heads = 2, .head_dim = 16, .causal = true};
  EXPECT_DOUBLE_EQ(work_of(attention, 4).matmul.value, 3.0 * 4 * 36 * 2 * 2 * 16);
  // qkv[24, (4+2+2)·16], out[24, 4·16], log-sum-exp[24·4].
  EXPECT_DOUBLE_EQ(work_of(attention, 4).memory.value, 4.0 * (24 * 128 + 24 * 64 + 24 * 4));
  attention.causal = false;
  EXPECT_DOUBLE_EQ(work_of(attention, 4).matmul.value, 3.0 * 4 * 64 * 2 * 2 * 16);
}

// Five products (scores again, dv, dp, dq, dk) against the forward pass's two.
TEST(WorkOf, AttentionGradIsFiveHalvesOfAttention) {
  const Attention forward{
      .sequences = 2, .sequence = 7, .heads = 4, .kv_heads = 4, .head_dim = 8, .causal = true};
  const AttentionGrad backward{
      .sequences = 2, .sequence = 7, .heads = 4, .kv_heads = 4, .head_dim = 8, .causal = true};
  EXPECT_DOUBLE_EQ(work_of(backward, 4).matmul.value, 2.5 * work_of(forward, 4).matmul.value);
}

// AdamW: 12 bytes read and 12 written per parameter of master and moments, 4 of gradient; half
// precision writes the rounded parameter too. Stochastic gradient descent has no moments.
TEST(WorkOf, OptimizerUpdateMovesItsStateOnce) {
  const OptimizerUpdate adam{.count = 100, .optimizer = {}};
  EXPECT_DOUBLE_EQ(work_of(adam, 4).memory.value, 100.0 * 28);
  EXPECT_DOUBLE_EQ(work_of(adam, 2).memory.value, 100.0 * 30);
  const OptimizerUpdate sgd{.count = 100, .optimizer = {.kind = OptimizerKind::Sgd}};
  EXPECT_DOUBLE_EQ(work_of(sgd, 4).memory.value, 100.0 * 12);
}

// [gate ; up][5, 2·6] → y[5, 6].
TEST(WorkOf, SwiGluReadsTwoColumnsPerResult) {
  const Activate swiglu{.rows = 5, .width = 6, .kind = ActivationKind::SwiGlu};
  EXPECT_DOUBLE_EQ(work_of(swiglu, 2).memory.value, 2.0 * 3 * 30);
}

// Work is linear in the rows where no operand is shared between them.
TEST(WorkOf, TwiceTheRowsIsTwiceTheElementwiseWork) {
  const auto add = [](std::int64_t rows) {
    return work_of(Add{.rows = rows, .width = 64, .bias = false}, 4).memory.value;
  };
  EXPECT_DOUBLE_EQ(add(20), 2 * add(10));
}

// dx[m,n] = dy·w contracts over the outputs, dw[out,in] over the rows.
TEST(MatmulsOf, GivesTheContractedDimensionAsK) {
  const auto input =
      matmuls_of(LinearInputGrad{.rows = 10, .out = 30, .in = 20, .accumulate = false});
  ASSERT_EQ(input.size(), 1u);
  EXPECT_EQ(input[0].m, 10);
  EXPECT_EQ(input[0].n, 20);
  EXPECT_EQ(input[0].k, 30);
  const auto weight = matmuls_of(LinearWeightGrad{.rows = 10, .out = 30, .in = 20, .bias = false});
  ASSERT_EQ(weight.size(), 1u);
  EXPECT_EQ(weight[0].m, 30);
  EXPECT_EQ(weight[0].n, 20);
  EXPECT_EQ(weight[0].k, 10);
  EXPECT_TRUE(matmuls_of(Attention{}).empty());
}

}  // namespace
}  // namespace orrery::core
