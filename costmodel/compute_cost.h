#pragma once
// How long one operator takes on one device: a roofline whose matrix peak depends on the shape.
//
//   matrix products   max(flops / (peak · efficiency(m, n, k)), bytes / (bandwidth · η)) + rest
//   attention         max(flops / (peak · efficiency(rows)),    bytes / (bandwidth · η)) + rest
//   all others        per_call + bytes / rate where the device file measured that operator,
//                     bytes / (bandwidth · η) + rest otherwise
//
// On a CPU rest = launch. On a GPU an operator is one kernel or several (costmodel/kernels.h):
// rest = kernels · gap + their other bytes / (bandwidth · η), and the host needs kernels · launch to
// issue them (issue_time), which bounds a pass from below but runs beside the device.
//
// Source of the form: Williams, Waterman, Patterson, Roofline, CACM 52(4), 2009.

#include "core/cluster.h"
#include "core/operator.h"
#include "core/program.h"
#include "core/units.h"

namespace orrery::costmodel {

/// Share of the peak that an m·n·k product reaches; at most the ceiling.
double gemm_efficiency(const core::GemmEfficiency&, const core::MatmulShape&);

/// Share of a GPU's multiprocessors that a product keeps busy, times what its tiles reach:
///   max over tiles of share · m·n / (waves · processors · rows · columns),
///   waves = ceil( ceil(m/rows) · ceil(n/columns) / processors ).
/// @source NVIDIA, Matrix Multiplication Background User's Guide: tile and wave quantization
double tile_efficiency(const core::GemmTiles&, const core::MatmulShape&);

/// The device's attention efficiency; where it has none, its GEMM ceiling times the share of it
/// that fused attention reaches (fitted by bench/fit_gemm on A100 and B200).
core::AttentionEfficiency attention_efficiency(const core::Device&);

/// Peak of matrix products in `precision`.
/// @throws ConfigError where the device file states none, naming those it has.
core::FlopsPerSecond matrix_peak(const core::Device&, core::DType precision);

/// Duration of one execution on the device, without contention.
core::Seconds compute_time(const core::Compute&, const core::Device&, core::DType precision);

/// What the host needs to issue an instruction of a pass: the launches of a GPU operator's kernels,
/// one launch for a collective and for a message, which its sender pays (a ring's send and receive
/// are one kernel; a stage's receive is issued ahead); nothing on a CPU, which is its own host. The
/// optimizer step's kernels each take many tensors at once, and its reductions are issued as backward
/// passes end: neither bounds it.
core::Seconds issue_time(const core::Instruction&, const core::Device&, core::DType precision);

}  // namespace orrery::costmodel
