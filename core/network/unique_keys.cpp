#include "core/network/unique_keys.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace orrery::core {
namespace {

constexpr std::int64_t kExactRanks = 1024;
constexpr double kBinRatio = 1.01;

// Ranks first .. first + count − 1 with their mean unnormalised weight.
struct Bin {
  double count;
  double weight;
};

// ∫ x^−s dx from a to b: the midpoint rule's sum over ranks a + ½ .. b − ½.
double power_integral(double a, double b, double s) {
  if (std::abs(1.0 - s) < 1e-12) return std::log(b / a);
  return (std::pow(b, 1.0 - s) - std::pow(a, 1.0 - s)) / (1.0 - s);
}

std::vector<Bin> bins_of(std::int64_t rows, double s) {
  std::vector<Bin> bins;
  const std::int64_t exact = std::min(rows, kExactRanks);
  for (std::int64_t i = 1; i <= exact; ++i) {
    bins.push_back({1.0, std::pow(static_cast<double>(i), -s)});
  }
  for (std::int64_t first = exact + 1; first <= rows;) {
    const auto wanted = static_cast<std::int64_t>(static_cast<double>(first) * (kBinRatio - 1.0));
    const std::int64_t count = std::min(std::max<std::int64_t>(wanted, 1), rows - first + 1);
    const double begin = static_cast<double>(first) - 0.5;
    const auto width = static_cast<double>(count);
    bins.push_back({width, power_integral(begin, begin + width, s) / width});
    first += count;
  }
  return bins;
}

}  // namespace

double expected_unique_keys(std::int64_t rows, double zipf_exponent, double lookups) {
  if (rows <= 0 || lookups <= 0) return 0.0;
  const std::vector<Bin> bins = bins_of(rows, zipf_exponent);
  double total = 0.0;
  for (const Bin& bin : bins) total += bin.count * bin.weight;
  double unique = 0.0;
  for (const Bin& bin : bins) {
    const double p = bin.weight / total;
    // 1 − (1 − p)^L without cancellation where p·L is small.
    unique += bin.count * (p >= 1.0 ? 1.0 : -std::expm1(lookups * std::log1p(-p)));
  }
  return unique;
}

double expected_unique_keys(const ClickThrough& model, double samples) {
  double unique = 0.0;
  for (const EmbeddingTable& table : model.tables) {
    const std::int64_t rows = table.rows / table.lookups_per_sample;
    unique += table.lookups_per_sample * expected_unique_keys(rows, table.zipf_exponent, samples);
  }
  return unique;
}

}  // namespace orrery::core
