#include "costmodel/compute_cost.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"
#include "costmodel/kernels.h"

namespace orrery::costmodel {
namespace {

using namespace core::literals;

/// A CPU: an operator is one call of `launch`.
core::Device device() {
  core::Device d;
  d.name = "test device";
  d.kind = core::DeviceKind::Cpu;
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

core::Device gpu() {
  core::Device d = device();
  d.kind = core::DeviceKind::Gpu;
  d.gap = 1.0_us;
  return d;
}

// 500 x 300 columns in tiles of 256 x 128: 2 · 3 = 6 tiles; of 128 x 256: 4 · 2 = 8; of 128 x 128:
// 4 · 3 = 12; of 64 x 64: 8 · 5 = 40. On 6 processors 1, 2, 2 and 7 waves, which compute
// 6 · 32768 = 196608, 12 · 32768, 12 · 16384 and 42 · 4096 = 172032 elements for 150000.
TEST(TileEfficiency, IsThatOfTheBestTiles) {
  const core::MatmulShape shape{.m = 500, .n = 300, .k = 1000};
  const double large = 150000.0 / 196608;
  const double small = 150000.0 / 172032;
  EXPECT_DOUBLE_EQ(tile_efficiency({.processors = 6, .medium = 0.9, .small = 0.5}, shape), large);
  EXPECT_DOUBLE_EQ(tile_efficiency({.processors = 6, .medium = 0.9, .small = 0.9}, shape),
                   std::max(large, small * 0.9));
  EXPECT_DOUBLE_EQ(tile_efficiency({.processors = 6, .medium = 0.9, .small = 1.0}, shape), small);
}

// On a GPU the launch is the host's. The bias's gradient is one of four kernels: it reads
// dy = 1000 · 500 elements of 2 bytes; the weight's gradient of 500 · 200 elements is written, read
// and added in float32 instead of read and written: 8 bytes more for each.
TEST(ComputeTime, OfAGpuCountsItsKernels) {
  const core::LinearWeightGrad op{.rows = 1000, .out = 500, .in = 200, .bias = true};
  core::Device d = gpu();
  const double product = seconds(op, device()) - 5e-6;
  const double beside = (1000.0 * 500 * 2 + 500.0 * 200 * 8) / 500e9;
  EXPECT_NEAR(seconds(op, d), product + 4 * 1e-6 + beside, 1e-15);
}

// 2·64·512 queries, 512 keys: heads of 100 elements are 200 bytes, no multiple of 16, and run at the
// rate of float32; those of 96 elements at bfloat16's. Otherwise they differ by 100/96 and by k.
TEST(ComputeTime, OfHeadsThatAreNotAlignedIsThatOfCudaCores) {
  core::Device d = gpu();
  d.peak[core::DType::Float32] = 10.0_TFLOPs;
  d.gemm = {};
  d.memory_bandwidth = 1e9_GBps;
  d.gap = {};
  const auto scores = [](int head) {
    return core::AttentionScores{
        .sequences = 2, .sequence = 512, .heads = 64, .kv_heads = 64, .head_dim = head};
  };
  EXPECT_NEAR(seconds(scores(100), d) / seconds(scores(96), d), 100e12 / 10e12 * 100 / 96, 1e-9);
  d.kind = core::DeviceKind::Cpu;
  d.launch = {};
  EXPECT_NEAR(seconds(scores(100), d) / seconds(scores(96), d), 100.0 / 96, 1e-9);
}

// fp8 is stored as bfloat16 and multiplied at its own peak, after casts that read 2 bytes and write
// twice 1 byte of each of 1000 · 200 elements.
TEST(ComputeTime, OfFp8IsWithItsCasts) {
  core::Device d = gpu();
  d.peak[core::DType::Float8] = 200.0_TFLOPs;
  d.gemm = {};
  d.gap = {};
  const core::Linear op{.rows = 1000, .out = 3000, .in = 2000, .bias = false};
  const double bf16 = compute_time(compute(op), d, core::DType::BFloat16).value;
  const double fp8 = compute_time(compute(op), d, core::DType::Float8).value;
  EXPECT_NEAR(bf16, 2.0 * 1000 * 3000 * 2000 / 100e12, 1e-12);
  EXPECT_NEAR(fp8, bf16 / 2 + 1000.0 * 2000 * 4 / 500e9, 1e-12);
}

core::Instruction instruction(core::Operator op, core::Pass pass) {
  core::Instruction i;
  i.operation = compute(op);
  i.pass = pass;
  return i;
}

// Four kernels of 5 us each; nothing in the optimizer step, on a CPU, or of what is loaded.
TEST(IssueTime, IsThatOfAPassesKernelsAndCommunications) {
  const core::LinearWeightGrad op{.rows = 1000, .out = 500, .in = 200, .bias = true};
  const auto issue = [](const core::Instruction& i, const core::Device& d) {
    return issue_time(i, d, core::DType::BFloat16).value;
  };
  EXPECT_DOUBLE_EQ(issue(instruction(op, core::Pass::Backward), gpu()), 20e-6);
  EXPECT_EQ(issue(instruction(op, core::Pass::OptimizerStep), gpu()), 0.0);
  EXPECT_EQ(issue(instruction(op, core::Pass::Backward), device()), 0.0);
  core::Instruction loads =
      instruction(core::LoadTokens{.sequences = 1, .sequence = 1}, core::Pass::Forward);
  loads.stream = core::Stream::Host;
  EXPECT_EQ(issue(loads, gpu()), 0.0);
  core::Instruction communication;
  for (const core::Stream stream :
       {core::Stream::Tensor, core::Stream::Context, core::Stream::Gather, core::Stream::Data}) {
    communication.operation = core::Collective{};
    communication.stream = stream;
    EXPECT_DOUBLE_EQ(issue(communication, gpu()), 5e-6);
  }
  communication.operation = core::Send{};
  communication.stream = core::Stream::SendContext;
  EXPECT_DOUBLE_EQ(issue(communication, gpu()), 5e-6);
  communication.operation = core::Receive{};
  communication.stream = core::Stream::ReceiveContext;
  EXPECT_EQ(issue(communication, gpu()), 0.0);
}

// Metamorphic: every rate doubled and every latency halved is half the time, for every operator.
TEST(ComputeTime, AMachineTwiceAsFastTakesHalfTheTime) {
  const core::Device slow = gpu();
  core::Device fast = slow;
  fast.memory_bandwidth *= 2.0;
  fast.peak[core::DType::BFloat16] *= 2.0;
  fast.launch *= 0.5;
  fast.gap *= 0.5;
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
    EXPECT_DOUBLE_EQ(seconds(op, fast), seconds(op, slow) / 2) << core::operator_name(op);
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

// Fused, scores are read and written in half precision, 2 + 2 bytes. By PyTorch's operators: to float32
// 2 + 4, scale, mask and softmax 4 + 4 each, back 4 + 2: 32 bytes more, and 4 kernels. Backward, fused
// 2 + 2 + 2; else 2 + 4, softmax 4 + 4 + 4, mask and scale 4 + 4 each, back 4 + 2: 34 more.
TEST(Kernels, ASoftmaxOfScoresThatAreNoMultipleOfFourIsNotFused) {
  const double scores = 64.0 * 64.0;
  const auto more = [&](const core::Operator& op, const core::Operator& fused, double times) {
    const Kernels a = kernels_of(op, core::DType::Float16);
    const Kernels b = kernels_of(fused, core::DType::Float16);
    EXPECT_EQ(a.count - b.count, 4);
    return a.beside.value - b.beside.value * times;
  };
  const double share = 2.0 / 4.0;  // Of two sequences and heads of the four.
  EXPECT_DOUBLE_EQ(more(core::Softmax{1, 64, 2, true}, core::Softmax{2, 64, 2, true}, share),
                   32.0 * 2 * scores);
  EXPECT_DOUBLE_EQ(more(core::SoftmaxGrad{1, 64, 2}, core::SoftmaxGrad{2, 64, 2}, share),
                   34.0 * 2 * scores);
  // In float32 it is never fused there, and not told apart here.
  EXPECT_EQ(kernels_of(core::Softmax{1, 64, 2, true}, core::DType::Float32).count,
            kernels_of(core::Softmax{2, 64, 2, true}, core::DType::Float32).count);
}

}  // namespace
}  // namespace orrery::costmodel
