#include "study/device_fit.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <variant>

#include "core/error.h"
#include "costmodel/compute_cost.h"
#include "costmodel/efficiency_fit.h"

namespace orrery::study {
namespace {

using Samples = std::vector<OperatorSample>;

// A timer tick: what is left of a duration shorter than the launch.
constexpr double kLeastSeconds = 1e-9;

bool is_attention(const core::Operator& op) {
  return std::holds_alternative<core::Attention>(op) ||
         std::holds_alternative<core::AttentionGrad>(op);
}

double after_launch(const OperatorSample& sample, core::Seconds launch) {
  return std::max(kLeastSeconds, (sample.duration - launch).value);
}

core::FlopsPerSecond fastest_product(const Samples& samples) {
  core::FlopsPerSecond fastest;
  for (const OperatorSample& s : samples) {
    if (core::matmuls_of(s.op).empty()) continue;
    fastest = std::max(fastest, s.work.matmul / s.duration);
  }
  ORRERY_CHECK(fastest.value > 0, "a device is fitted to at least one matrix product");
  return fastest;
}

core::Seconds fastest_call(const Samples& samples) {
  core::Seconds least = samples.front().duration;
  for (const OperatorSample& s : samples) least = std::min(least, s.duration);
  return least;
}

// Sets peak and gemm. Where the fit goes beyond the fastest product seen, that is the peak.
void fit_products(core::Device& device, const Samples& samples) {
  const core::FlopsPerSecond fastest = fastest_product(samples);
  std::vector<costmodel::GemmSample> products;
  for (const OperatorSample& s : samples) {
    const auto shapes = core::matmuls_of(s.op);
    if (shapes.empty()) continue;
    const double seconds = after_launch(s, device.launch);
    products.push_back({shapes.front(), s.work.matmul.value / seconds / fastest.value});
  }
  device.gemm = costmodel::fit_gemm(products);
  const double beyond = std::max(1.0, device.gemm.ceiling);
  device.gemm.ceiling /= beyond;
  device.peak = {{core::DType::Float32, fastest * beyond}};
}

double mean_share(const std::vector<costmodel::AttentionSample>& passes, bool backward) {
  double sum = 0.0;
  double count = 0.0;
  for (const costmodel::AttentionSample& pass : passes) {
    if (pass.backward != backward) continue;
    sum += std::min(1.0, pass.share);
    count += 1.0;
  }
  return sum / count;
}

void fit_attentions(core::Device& device, const Samples& samples) {
  const core::FlopsPerSecond peak = device.peak.at(core::DType::Float32);
  std::vector<costmodel::AttentionSample> passes;
  for (const OperatorSample& s : samples) {
    const double share = s.work.matmul.value / after_launch(s, device.launch) / peak.value;
    const auto add = [&](const auto& op, bool backward) {
      const double rows =
          static_cast<double>(op.sequences) * static_cast<double>(op.sequence) * op.heads;
      passes.push_back({rows, backward, share});
    };
    if (const auto* forward = std::get_if<core::Attention>(&s.op)) add(*forward, false);
    if (const auto* backward = std::get_if<core::AttentionGrad>(&s.op)) add(*backward, true);
  }
  const auto backward =
      std::count_if(passes.begin(), passes.end(), [](const auto& pass) { return pass.backward; });
  if (backward == 0 || backward == static_cast<std::ptrdiff_t>(passes.size())) return;
  core::AttentionEfficiency fit = costmodel::fit_attention(passes);
  // Where the sizes hardly vary, ceiling and half size are not told apart and may run away
  // together: the mean share says as much.
  if (fit.forward > 1.0 || fit.backward > 1.0) {
    fit = {.forward = mean_share(passes, false),
           .backward = mean_share(passes, true),
           .half_rows = 0.0};
  }
  device.attention = fit;
}

std::vector<OperatorFit> quality_of(const core::Device& device,
                                    const std::map<std::string_view, Samples>& by_name) {
  std::vector<OperatorFit> fits;
  for (const std::string_view name : core::operator_names()) {
    const auto found = by_name.find(name);
    if (found == by_name.end()) continue;
    std::vector<double> errors;
    for (const OperatorSample& s : found->second) {
      const core::Seconds predicted =
          costmodel::compute_time({s.op, s.work}, device, core::DType::Float32);
      errors.push_back(std::abs(predicted / s.duration - 1.0));
    }
    std::sort(errors.begin(), errors.end());
    fits.push_back({std::string(name), errors.size(), errors[errors.size() / 2], errors.back()});
  }
  return fits;
}

}  // namespace

core::OperatorRate fit_operator_rate(const Samples& samples) {
  ORRERY_CHECK(!samples.empty(), "a fit needs samples");
  // Rows: (1, bytes)/√time · (per_call, 1/rate) = √time.
  const auto rows = static_cast<Eigen::Index>(samples.size());
  Eigen::MatrixX2d a(rows, 2);
  Eigen::VectorXd b(rows);
  for (Eigen::Index i = 0; i < rows; ++i) {
    const OperatorSample& s = samples[static_cast<std::size_t>(i)];
    b(i) = std::sqrt(s.duration.value);
    a(i, 0) = 1.0 / b(i);
    a(i, 1) = s.work.memory.value / b(i);
  }
  // Least squares of one column alone: the answer where the other's coefficient would be negative.
  const auto alone = [&](int column) { return a.col(column).dot(b) / a.col(column).squaredNorm(); };
  const auto error = [&](const Eigen::Vector2d& x) { return (a * x - b).squaredNorm(); };
  const Eigen::Vector2d both = a.colPivHouseholderQr().solve(b);
  Eigen::Vector2d best(alone(0), 0.0);
  if (a.col(1).squaredNorm() > 0) {
    const Eigen::Vector2d rate_alone(0.0, alone(1));
    if (error(rate_alone) < error(best)) best = rate_alone;
  }
  if (both(0) >= 0 && both(1) > 0 && error(both) < error(best)) best = both;
  // Without a dependence on bytes the rate does not matter; a device file wants one all the same.
  constexpr double kNoDependence = 1e15;  // Bytes per second; beyond any memory.
  return {core::Seconds(best(0)),
          core::BytesPerSecond(best(1) > 0 ? 1.0 / best(1) : kNoDependence)};
}

DeviceFit fit_device(core::Device device, const Samples& samples) {
  std::map<std::string_view, Samples> by_name;
  for (const OperatorSample& s : samples) by_name[core::operator_name(s.op)].push_back(s);

  device.launch = fastest_call(samples);
  fit_products(device, samples);
  fit_attentions(device, samples);
  device.operators.clear();
  for (const auto& [name, measured] : by_name) {
    const core::Operator& op = measured.front().op;
    if (!core::matmuls_of(op).empty() || is_attention(op)) continue;
    device.operators[std::string(name)] = fit_operator_rate(measured);
  }
  std::vector<OperatorFit> quality = quality_of(device, by_name);
  return {std::move(device), std::move(quality)};
}

}  // namespace orrery::study
