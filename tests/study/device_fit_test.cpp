#include "study/device_fit.h"

#include <gtest/gtest.h>

#include "costmodel/compute_cost.h"

namespace {

using namespace orrery;
using namespace orrery::core::literals;

constexpr int kFloatBytes = 4;

study::OperatorSample sample(const core::Operator& op, core::Seconds duration) {
  return {op, core::work_of(op, kFloatBytes), duration};
}

// Zero writes 4·count bytes. Times of exactly 2 us + bytes / 8 GB/s have that as their fit.
TEST(OperatorRateFit, FindsThePerCallTimeAndTheRateThatMadeTheSamples) {
  std::vector<study::OperatorSample> samples;
  for (const std::int64_t count : {100, 1000, 50000, 1000000}) {
    samples.push_back(sample(core::Zero{count},
                             2.0_us + core::Bytes(4.0 * static_cast<double>(count)) / 8.0_GBps));
  }
  const core::OperatorRate fit = study::fit_operator_rate(samples);
  EXPECT_NEAR(fit.per_call.value, 2e-6, 1e-12);
  EXPECT_NEAR(fit.rate.value / 8e9, 1.0, 1e-9);
}

// One size only: either part alone explains it, so the prediction equals the measurement.
TEST(OperatorRateFit, TellsASingleSample) {
  const auto one = sample(core::Zero{1000}, 3.0_us);
  const core::OperatorRate fit = study::fit_operator_rate({one});
  EXPECT_NEAR((fit.per_call + one.work.memory / fit.rate).value, 3e-6, 1e-11);
}

// Times that fall with size have no positive rate: per_call alone minimises Σ (c − t)²/t at
// c = n / Σ(1/t) = 2 / (1/4 + 1/2) us = 8/3 us.
TEST(OperatorRateFit, HasNoNegativeRate) {
  const core::OperatorRate fit =
      study::fit_operator_rate({sample(core::Zero{100}, 4.0_us), sample(core::Zero{1000}, 2.0_us)});
  EXPECT_NEAR(fit.per_call.value, 8e-6 / 3, 1e-12);
  EXPECT_GT(fit.rate.value, 0);
}

core::Device known_device() {
  core::Device device;
  device.kind = core::DeviceKind::Cpu;
  device.memory_bandwidth = 20.0_GBps;
  device.peak[core::DType::Float32] = core::FlopsPerSecond(1e11);
  device.launch = 1.0_us;
  device.gemm = {.ceiling = 0.9, .half_m = 8, .half_n = 16, .half_k = 24};
  device.attention = core::AttentionEfficiency{.forward = 0.3, .backward = 0.4, .half_rows = 500};
  device.operators["add"] = {1.5_us, 12.0_GBps};
  device.operators["clip_factor"] = {1.0_us, 1.0_GBps};
  return device;
}

// The fit of samples that a known device made predicts them again; it may express the same times by
// another peak and ceiling.
TEST(DeviceFit, PredictsTheSamplesOfAKnownDevice) {
  const core::Device known = known_device();
  std::vector<core::Operator> operators = {core::ClipFactor{true, 1.0}};
  for (const std::int64_t rows : {64, 256, 1024}) {
    for (const std::int64_t width : {64, 192, 512}) {
      operators.push_back(core::Linear{rows, width, 128, true});
      operators.push_back(core::LinearInputGrad{rows, 96, width, false});
      operators.push_back(core::Add{rows, width, false});
    }
    operators.push_back(core::Attention{1, rows, 4, 4, 32, true});
    operators.push_back(core::AttentionGrad{1, rows, 4, 4, 32, true});
  }
  std::vector<study::OperatorSample> samples;
  for (const core::Operator& op : operators) {
    const core::Work work = core::work_of(op, kFloatBytes);
    samples.push_back({op, work, costmodel::compute_time({op, work}, known, core::DType::Float32)});
  }
  core::Device base;
  base.kind = known.kind;
  base.memory_bandwidth = known.memory_bandwidth;
  const study::DeviceFit fit = study::fit_device(base, samples);
  ASSERT_EQ(fit.quality.size(), 6U);
  for (const study::OperatorFit& q : fit.quality) {
    EXPECT_LT(q.largest_error, 0.02) << q.name;
  }
}

}  // namespace
