#pragma once
// From measured operators to the parameters of a device file.
//
//   peak       the fastest matrix product seen, or what the fit reaches where that is more
//   launch     the fastest operator of all: what a call costs that does next to nothing
//   gemm       costmodel::fit_gemm over (duration − launch)
//   attention  costmodel::fit_attention, likewise
//   others     time = per_call + bytes / rate: fit_operator_rate

#include <string>
#include <vector>

#include "core/cluster.h"
#include "study/operator_samples.h"

namespace orrery::study {

/// How well the fitted device tells the samples it was fitted to, by operator.
struct OperatorFit {
  std::string name;
  std::size_t samples = 0;
  double median_error = 0.0;  ///< Of |predicted / measured − 1|.
  double largest_error = 0.0;
};

struct DeviceFit {
  core::Device device;
  std::vector<OperatorFit> quality;  ///< In the order of core::operator_names().
};

/// per_call and rate of the least Σ (per_call + bytes/rate − time)² / time with neither negative:
/// between the absolute error, which only large calls decide, and the relative one, in which a
/// call of a microsecond counts as much as one of ten milliseconds.
/// @param samples  At least one, with positive durations.
core::OperatorRate fit_operator_rate(const std::vector<OperatorSample>& samples);

/// Fills peak (float32), launch, gemm, attention and operators of `device` from the samples; what
/// they do not touch (memory and its bandwidth) stays.
/// @param samples  With at least one matrix product.
DeviceFit fit_device(core::Device device, const std::vector<OperatorSample>& samples);

}  // namespace orrery::study
