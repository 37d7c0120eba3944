#pragma once
// How long one operator takes on one device: a roofline whose matrix peak depends on the shape.
//
//   matrix products   launch + max(flops / (peak · efficiency(m, n, k)), bytes / (bandwidth · η))
//   attention         launch + max(flops / (peak · efficiency(rows)),    bytes / (bandwidth · η))
//   all others        per_call + bytes / rate where the device file measured that operator,
//                     launch + bytes / (bandwidth · η) otherwise
//
// Source of the form: Williams, Waterman, Patterson, Roofline, CACM 52(4), 2009.

#include "core/cluster.h"
#include "core/operator.h"
#include "core/program.h"
#include "core/units.h"

namespace orrery::costmodel {

/// Share of the peak that an m·n·k product reaches; at most the ceiling.
double gemm_efficiency(const core::GemmEfficiency&, const core::MatmulShape&);

/// The device's attention efficiency; where it has none, its GEMM ceiling times the share of it
/// that fused attention reaches (fitted by bench/fit_gemm on A100 and B200).
core::AttentionEfficiency attention_efficiency(const core::Device&);

/// Peak of matrix products in `precision`.
/// @throws ConfigError where the device file states none, naming those it has.
core::FlopsPerSecond matrix_peak(const core::Device&, core::DType precision);

/// Duration of one execution, without contention.
core::Seconds compute_time(const core::Compute&, const core::Device&, core::DType precision);

}  // namespace orrery::costmodel
