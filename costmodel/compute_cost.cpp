#include "costmodel/compute_cost.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>
#include <variant>

#include "core/error.h"
#include "costmodel/kernels.h"

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
  if (const auto* f = std::get_if<core::RingAttention>(&op)) {
    return AttentionShape{rows_of(f->sequences, f->sequence, f->heads), false};
  }
  if (const auto* b = std::get_if<core::RingAttentionGrad>(&op)) {
    return AttentionShape{rows_of(b->sequences, b->sequence, b->heads), true};
  }
  return std::nullopt;
}

double attention_share(const Device& device, const AttentionShape& shape) {
  const core::AttentionEfficiency efficiency = attention_efficiency(device);
  const double ceiling = shape.backward ? efficiency.backward : efficiency.forward;
  return ceiling * shape.rows / (shape.rows + efficiency.half_rows);
}

/// Head size of plain attention's products.
std::optional<int> plain_head_size(const core::Operator& op) {
  return std::visit(
      [](const auto& o) -> std::optional<int> {
        using Op = std::decay_t<decltype(o)>;
        if constexpr (std::is_same_v<Op, core::AttentionScores> ||
                      std::is_same_v<Op, core::AttentionContext> ||
                      std::is_same_v<Op, core::AttentionContextGrad> ||
                      std::is_same_v<Op, core::AttentionScoresGrad>) {
          return o.head_dim;
        }
        return std::nullopt;
      },
      op);
}

/// Attention's own products stay in half precision where the layers' are in fp8.
core::DType attention_precision(core::DType precision) {
  return precision == core::DType::Float8 ? core::DType::BFloat16 : precision;
}

/// Rate of an operator's matrix products. Batched products whose rows are no multiple of 16 bytes
/// do not run on a GPU's tensor cores.
/// Source: NVIDIA, Matrix Multiplication Background User's Guide, section 3, "Requirements to use
/// Tensor Cores".
core::FlopsPerSecond product_rate(const core::Operator& op, const core::MatmulShape& shape,
                                  const Device& device, core::DType precision) {
  constexpr int kAlignment = 16;
  const auto head = plain_head_size(op);
  const bool misaligned = device.kind == core::DeviceKind::Gpu && head &&
                          *head * core::dtype_bytes(precision) % kAlignment != 0;
  if (head) precision = attention_precision(precision);
  const auto peak = matrix_peak(device, misaligned ? core::DType::Float32 : precision);
  return peak * gemm_efficiency(device.gemm, shape);
}

}  // namespace

double gemm_efficiency(const core::GemmEfficiency& fit, const core::MatmulShape& shape) {
  const auto saturation = [](std::int64_t size, double half) {
    const auto x = static_cast<double>(size);
    return x / (x + half);
  };
  return fit.ceiling * saturation(shape.m, fit.half_m) * saturation(shape.n, fit.half_n) *
         saturation(shape.k, fit.half_k) * (fit.tiles ? tile_efficiency(*fit.tiles, shape) : 1.0);
}

double tile_efficiency(const core::GemmTiles& tiles, const core::MatmulShape& shape) {
  struct Tile {
    double rows, columns, share;
  };
  const auto m = static_cast<double>(shape.m);
  const auto n = static_cast<double>(shape.n);
  double best = 0.0;
  for (const Tile& tile : {Tile{256, 128, 1.0}, Tile{128, 256, 1.0}, Tile{128, 128, tiles.medium},
                           Tile{64, 64, tiles.small}}) {
    const double count = std::ceil(m / tile.rows) * std::ceil(n / tile.columns);
    const double waves = std::ceil(count / tiles.processors);
    const double computed = waves * tiles.processors * tile.rows * tile.columns;
    best = std::max(best, tile.share * m * n / computed);
  }
  return best;
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
  const auto measured = device.operators.find(std::string(core::operator_name(compute.op)));
  const auto shapes = core::matmuls_of(compute.op);
  const auto attention = attention_of(compute.op);
  Seconds rest = device.launch;
  if (device.kind == core::DeviceKind::Gpu) {
    const Kernels kernels = kernels_of(compute.op, precision);
    rest = device.gap * kernels.count + memory_time(kernels.beside, device);
  }
  if (!shapes.empty()) {
    const auto rate = product_rate(compute.op, shapes.front(), device, precision);
    return std::max(work.matmul / rate, memory_time(work.memory, device)) + rest;
  }
  if (attention) {
    const core::FlopsPerSecond rate =
        matrix_peak(device, attention_precision(precision)) * attention_share(device, *attention);
    return std::max(work.matmul / rate, memory_time(work.memory, device)) + rest;
  }
  if (measured != device.operators.end()) {
    return measured->second.per_call + work.memory / measured->second.rate;
  }
  return memory_time(work.memory, device) + rest;
}

Seconds issue_time(const core::Instruction& instruction, const Device& device,
                   core::DType precision) {
  const bool of_a_pass =
      instruction.pass == core::Pass::Forward || instruction.pass == core::Pass::Recompute ||
      instruction.pass == core::Pass::Backward || instruction.pass == core::Pass::WeightGrad;
  if (device.kind != core::DeviceKind::Gpu || !of_a_pass) return Seconds(0);
  if (const auto* compute = std::get_if<core::Compute>(&instruction.operation)) {
    if (instruction.stream == core::Stream::Host) return Seconds(0);
    return device.launch * kernels_of(compute->op, precision).count;
  }
  const bool waits_for_a_peer = std::holds_alternative<core::Receive>(instruction.operation);
  return waits_for_a_peer ? Seconds(0) : device.launch;
}

}  // namespace orrery::costmodel
