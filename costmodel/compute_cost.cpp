#include "costmodel/compute_cost.h"

#include <algorithm>
#include <string>

#include "core/error.h"

namespace orrery::costmodel {
namespace {

using core::Bytes;
using core::Device;
using core::Flops;
using core::Seconds;

// Fused attention relative to the GEMM ceiling of the same device, and the rows at half of it.
// Source: bench/fit_gemm over data/validation/gemm_tflops.csv (FlashAttention on A100-PCIe).
constexpr double kForwardOfGemm = 0.558 / 0.789;
constexpr double kBackwardOfGemm = 0.492 / 0.789;
constexpr double kHalfRows = 11903.0;

Seconds memory_time(Bytes bytes, const Device& device) {
  return bytes / (device.memory_bandwidth * device.memory_efficiency);
}

struct AttentionShape {
  double rows;
  bool backward;
};

double rows_of(std::int64_t sequences, std::int64_t sequence, int heads) {
  return static_cast<double>(sequences) * static_cast<double>(sequence) * heads;
}

std::optional<AttentionShape> attention_of(const core::Operator& op) {
  if (const auto* f = std::get_if<core::Attention>(&op)) {
    return AttentionShape{rows_of(f->sequences, f->sequence, f->heads), false};
  }
  if (const auto* b = std::get_if<core::AttentionGrad>(&op)) {
    return AttentionShape{rows_of(b->sequences, b->sequence, b->heads), true};
  }
  return std::nullopt;
}

double attention_share(const Device& device, const AttentionShape& shape) {
  const core::AttentionEfficiency efficiency = attention_efficiency(device);
  const double ceiling = shape.backward ? efficiency.backward : efficiency.forward;
  return ceiling * shape.rows / (shape.rows + efficiency.half_rows);
}

}  // namespace

double gemm_efficiency(const core::GemmEfficiency& fit, const core::MatmulShape& shape) {
  const auto saturation = [](std::int64_t size, double half) {
    const auto x = static_cast<double>(size);
    return x / (x + half);
  };
  return fit.ceiling * saturation(shape.m, fit.half_m) * saturation(shape.n, fit.half_n) *
         saturation(shape.k, fit.half_k);
}

core::AttentionEfficiency attention_efficiency(const Device& device) {
  if (device.attention) return *device.attention;
  return {.forward = kForwardOfGemm * device.gemm.ceiling,
          .backward = kBackwardOfGemm * device.gemm.ceiling,
          .half_rows = kHalfRows};
}

core::FlopsPerSecond matrix_peak(const Device& device, core::DType precision) {
  const auto peak = device.peak.find(precision);
  if (peak != device.peak.end()) return peak->second;
  std::string known;
  for (const auto& [dtype, rate] : device.peak) {
    known += (known.empty() ? "" : ", ") + std::string(core::dtype_name(dtype));
  }
  throw core::ConfigError("device " + device.name + ": no peak for " +
                          std::string(core::dtype_name(precision)) + "; it has: " + known);
}

Seconds compute_time(const core::Compute& compute, const Device& device, core::DType precision) {
  const core::Work& work = compute.work;
  const auto shapes = core::matmuls_of(compute.op);
  if (!shapes.empty()) {
    const core::FlopsPerSecond rate =
        matrix_peak(device, precision) * gemm_efficiency(device.gemm, shapes.front());
    return device.launch + std::max(work.matmul / rate, memory_time(work.memory, device));
  }
  if (const auto attention = attention_of(compute.op)) {
    const core::FlopsPerSecond rate =
        matrix_peak(device, precision) * attention_share(device, *attention);
    return device.launch + std::max(work.matmul / rate, memory_time(work.memory, device));
  }
  const auto measured = device.operators.find(std::string(core::operator_name(compute.op)));
  if (measured != device.operators.end()) {
    return measured->second.per_call + work.memory / measured->second.rate;
  }
  return device.launch + memory_time(work.memory, device);
}

}  // namespace orrery::costmodel
