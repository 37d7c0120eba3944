#include "costmodel/compute_cost.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace orrery::costmodel {
namespace {

using namespace core::literals;

core::Device device() {
  core::Device d;
  d.name = "test device";
  d.memory_bandwidth = 1000.0_GBps;
  d.memory_efficiency = 0.5;
  d.peak[core::DType::BFloat16] = 100.0_TFLOPs;
  d.gemm = {.ceiling = 0.8, .half_m = 128, .half_n = 256, .half_k = 64};
  d.attention = core::AttentionEfficiency{.forward = 0.5, .backward = 0.4, .half_rows = 1000};
  d.launch = 5.0_us;
  return d;
}

core::Compute compute(core::Operator op) { return {.op = op, .work = core::work_of(op, 2)}; }

double seconds(core::Operator op, const core::Device& d = device()) {
  return compute_time(compute(op), d, core::DType::BFloat16).value;
}

// At m = half_m, n = half_n, k = half_k each factor is 1/2.
TEST(GemmEfficiency, IsAnEighthOfTheCeilingAtTheHalfSizes) {
  EXPECT_DOUBLE_EQ(gemm_efficiency(device().gemm, {.m = 128, .n = 256, .k = 64}), 0.1);
}

// 4096³: 2·4096³ flops at 100 TF · 0.8 · 4096/4224 · 4096/4352 · 4096/4160; memory is 100 MB, 0.2
// ms.
TEST(ComputeTime, LargeProductsAreBoundByTheMatrixPeak) {
  const double efficiency = 0.8 * 4096 / 4224.0 * 4096 / 4352.0 * 4096 / 4160.0;
  EXPECT_NEAR(seconds(core::Linear{.rows = 4096, .out = 4096, .in = 4096, .bias = false}),
              5e-6 + 2.0 * 4096 * 4096 * 4096 / (100e12 * efficiency), 1e-15);
}

// One row: reads the whole weight, 2 · 4096² bytes at 500 GB/s.
TEST(ComputeTime, ProductsWithOneRowAreBoundByMemory) {
  const double bytes = 2.0 * (4096.0 * 4096 + 2 * 4096);
  core::Device d = device();
  d.gemm = {};
  EXPECT_NEAR(seconds(core::Linear{.rows = 1, .out = 4096, .in = 4096, .bias = false}, d),
              5e-6 + bytes / 500e9, 1e-15);
}

// rows = 2·512·4 = 4096: share 0.5 · 4096/5096 (forward) of 100 TF on 2·4·(512·513/2) pairs · 4·64.
TEST(ComputeTime, AttentionHasItsOwnEfficiency) {
  const core::Attention op{
      .sequences = 2, .sequence = 512, .heads = 4, .kv_heads = 4, .head_dim = 64, .causal = true};
  const double pairs = 2 * 4 * 512.0 * 513 / 2;
  EXPECT_NEAR(seconds(op), 5e-6 + pairs * 4 * 64 / (100e12 * 0.5 * 4096 / 5096.0), 1e-12);
}

TEST(ComputeTime, ElementwiseOperatorsStreamMemory) {
  // 3 · 1000 · 1000 elements of 2 bytes at 500 GB/s.
  EXPECT_NEAR(seconds(core::Add{.rows = 1000, .width = 1000, .bias = false}), 5e-6 + 6e6 / 500e9,
              1e-15);
}

TEST(ComputeTime, AMeasuredOperatorReplacesTheGuess) {
  core::Device d = device();
  d.operators["add"] = {.per_call = 1.0_us, .rate = 250.0_GBps};
  EXPECT_NEAR(seconds(core::Add{.rows = 1000, .width = 1000, .bias = false}, d), 1e-6 + 6e6 / 250e9,
              1e-15);
}

// Metamorphic: every rate doubled and every latency halved is half the time, for every operator.
TEST(ComputeTime, AMachineTwiceAsFastTakesHalfTheTime) {
  core::Device fast = device();
  fast.memory_bandwidth *= 2.0;
  fast.peak[core::DType::BFloat16] *= 2.0;
  fast.launch *= 0.5;
  const std::vector<core::Operator> operators = {
      core::Linear{.rows = 77, .out = 300, .in = 200, .bias = true},
      core::LinearWeightGrad{.rows = 4096, .out = 4096, .in = 4096, .bias = false},
      core::AttentionGrad{.sequences = 1,
                          .sequence = 128,
                          .heads = 8,
                          .kv_heads = 2,
                          .head_dim = 64,
                          .causal = true},
      core::Normalize{
          .rows = 100, .width = 64, .kind = core::Normalization::RmsNorm, .epsilon = 1e-5},
      core::OptimizerUpdate{.count = 12345, .optimizer = {}}};
  for (const core::Operator& op : operators) {
    EXPECT_DOUBLE_EQ(seconds(op, fast), seconds(op) / 2) << core::operator_name(op);
  }
}

TEST(ComputeTime, AMissingPeakNamesThoseThatExist) {
  const auto call = [] {
    compute_time(compute(core::Linear{.rows = 1, .out = 1, .in = 1, .bias = false}), device(),
                 core::DType::Float8);
  };
  try {
    call();
    FAIL() << "no error";
  } catch (const core::ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("bfloat16"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace orrery::costmodel
