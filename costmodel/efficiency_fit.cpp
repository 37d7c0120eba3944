#include "costmodel/efficiency_fit.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "costmodel/compute_cost.h"
#include "costmodel/levenberg_marquardt.h"

namespace orrery::costmodel {
namespace {

// Parameters are fitted as logarithms, so that they stay positive.
constexpr double kStartHalf = 64.0;

core::GemmEfficiency gemm_from(const std::vector<double>& logs) {
  return {.ceiling = std::exp(logs[0]),
          .half_m = std::exp(logs[1]),
          .half_n = std::exp(logs[2]),
          .half_k = std::exp(logs[3]),
          .tiles = {}};
}

core::AttentionEfficiency attention_from(const std::vector<double>& logs) {
  return {
      .forward = std::exp(logs[0]), .backward = std::exp(logs[1]), .half_rows = std::exp(logs[2])};
}

double predicted(const core::AttentionEfficiency& fit, const AttentionSample& sample) {
  return (sample.backward ? fit.backward : fit.forward) * sample.rows /
         (sample.rows + fit.half_rows);
}

template <class Member>
bool varies(const std::vector<GemmSample>& samples, Member member) {
  return std::any_of(samples.begin(), samples.end(), [&](const GemmSample& s) {
    return s.shape.*member != samples.front().shape.*member;
  });
}

FitQuality quality_of(std::vector<double> errors) {
  std::sort(errors.begin(), errors.end());
  return {.median_error = errors[errors.size() / 2], .largest_error = errors.back()};
}

}  // namespace

core::GemmEfficiency fit_gemm(const std::vector<GemmSample>& samples) {
  ORRERY_CHECK(!samples.empty(), "a fit needs samples");
  const bool m = varies(samples, &core::MatmulShape::m);
  const bool n = varies(samples, &core::MatmulShape::n);
  const bool k = varies(samples, &core::MatmulShape::k);
  const auto fixed = [&](const std::vector<double>& logs) {
    core::GemmEfficiency fit = gemm_from(logs);
    if (!m) fit.half_m = 0;
    if (!n) fit.half_n = 0;
    if (!k) fit.half_k = 0;
    return fit;
  };
  const auto residuals = [&](const std::vector<double>& logs) {
    const core::GemmEfficiency fit = fixed(logs);
    std::vector<double> r;
    r.reserve(samples.size());
    for (const GemmSample& s : samples) {
      r.push_back(std::log(gemm_efficiency(fit, s.shape)) - std::log(s.share));
    }
    return r;
  };
  const double half = std::log(kStartHalf);
  return fixed(least_squares(residuals, {std::log(0.8), half, half, half}));
}

core::GemmEfficiency fit_gemm_tiles(const std::vector<GemmSample>& samples, int processors) {
  ORRERY_CHECK(!samples.empty(), "a fit needs samples");
  const auto from = [&](const std::vector<double>& logs) {
    const auto share = [](double log) { return std::min(1.0, std::exp(log)); };
    core::GemmEfficiency fit{.ceiling = std::exp(logs[0]),
                             .half_m = 0,
                             .half_n = 0,
                             .half_k = std::exp(logs[1]),
                             .tiles = {}};
    fit.tiles = {.processors = processors, .medium = share(logs[2]), .small = share(logs[3])};
    return fit;
  };
  const auto residuals = [&](const std::vector<double>& logs) {
    const core::GemmEfficiency fit = from(logs);
    std::vector<double> r;
    r.reserve(samples.size());
    for (const GemmSample& s : samples) {
      r.push_back(std::log(gemm_efficiency(fit, s.shape)) - std::log(s.share));
    }
    return r;
  };
  const std::vector<double> start = {std::log(0.8), std::log(2 * kStartHalf), std::log(0.9),
                                     std::log(0.75)};
  return from(least_squares(residuals, start));
}

FitQuality quality(const core::GemmEfficiency& fit, const std::vector<GemmSample>& samples) {
  std::vector<double> errors;
  errors.reserve(samples.size());
  for (const GemmSample& s : samples) {
    errors.push_back(std::abs(gemm_efficiency(fit, s.shape) / s.share - 1.0));
  }
  return quality_of(std::move(errors));
}

core::AttentionEfficiency fit_attention(const std::vector<AttentionSample>& samples) {
  ORRERY_CHECK(!samples.empty(), "a fit needs samples");
  const auto residuals = [&](const std::vector<double>& logs) {
    const core::AttentionEfficiency fit = attention_from(logs);
    std::vector<double> r;
    r.reserve(samples.size());
    for (const AttentionSample& s : samples) {
      r.push_back(std::log(predicted(fit, s)) - std::log(s.share));
    }
    return r;
  };
  return attention_from(least_squares(residuals, {std::log(0.5), std::log(0.5), std::log(1e4)}));
}

FitQuality quality(const core::AttentionEfficiency& fit,
                   const std::vector<AttentionSample>& samples) {
  std::vector<double> errors;
  errors.reserve(samples.size());
  for (const AttentionSample& s : samples) {
    errors.push_back(std::abs(predicted(fit, s) / s.share - 1.0));
  }
  return quality_of(std::move(errors));
}

}  // namespace orrery::costmodel
