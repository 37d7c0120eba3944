// Fits GemmEfficiency and AttentionEfficiency per device from data/validation/gemm_tflops.csv and
// prints the TOML lines for configs/devices. Run by bench/fit_gemm.sh.

#include <fmt/core.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "costmodel/efficiency_fit.h"

namespace {

using orrery::costmodel::AttentionSample;
using orrery::costmodel::GemmSample;

struct Samples {
  std::vector<GemmSample> gemm;
  std::vector<AttentionSample> attention;
};

// A CSV line with double quotes around fields that hold commas.
std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

// The integer after "name=" in a key such as "batch=1, seq_len=4096, head_num=32".
double value_in(const std::string& key, const std::string& name) {
  const auto at = key.find(name + "=");
  if (at == std::string::npos) return 0;
  return std::strtod(key.c_str() + at + name.size() + 1, nullptr);
}

std::map<std::string, Samples> read_samples(const std::string& path) {
  enum { kId, kGpu, kKey, kOperator, kBatch, kM, kN, kK, kLayout, kAccumulate, kRate, kShare };
  std::map<std::string, Samples> devices;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto f = fields_of(line);
    if (f.size() <= kShare || f[kId].rfind("simumax", 0) != 0) continue;
    const double share = std::strtod(f[kShare].c_str(), nullptr);
    Samples& samples = devices[f[kGpu]];
    if (f[kOperator] == "matmul") {
      samples.gemm.push_back({{.m = std::atoll(f[kM].c_str()),
                               .n = std::atoll(f[kN].c_str()),
                               .k = std::atoll(f[kK].c_str())},
                              share});
    } else if (f[kOperator] == "sdp_fwd" || f[kOperator] == "sdp_bwd") {
      // The source counts all T² pairs of a causal mask; half of them are computed.
      samples.attention.push_back(
          {.rows = value_in(f[kKey], "batch") * value_in(f[kKey], "seq_len") *
                   value_in(f[kKey], " head_num"),
           .backward = f[kOperator] == "sdp_bwd",
           .share = share / 2.0});
    }
  }
  return devices;
}

}  // namespace

int main() {
  const std::string path = std::string(ORRERY_SOURCE_DIR) + "/data/validation/gemm_tflops.csv";
  const auto devices = read_samples(path);
  if (devices.empty()) {
    fmt::print(stderr, "{}: no samples\n", path);
    return 1;
  }
  double worst_median = 0;
  for (const auto& [gpu, samples] : devices) {
    const auto gemm = orrery::costmodel::fit_gemm(samples.gemm);
    const auto gemm_quality = orrery::costmodel::quality(gemm, samples.gemm);
    const auto attention = orrery::costmodel::fit_attention(samples.attention);
    const auto attention_quality = orrery::costmodel::quality(attention, samples.attention);
    fmt::print("# {}: {} products, median error {:.1f}%, largest {:.1f}%\n", gpu,
               samples.gemm.size(), 100 * gemm_quality.median_error,
               100 * gemm_quality.largest_error);
    fmt::print("gemm = {{ ceiling = {:.3f}, half_m = {:.1f}, half_n = {:.1f}, half_k = {:.1f} }}\n",
               gemm.ceiling, gemm.half_m, gemm.half_n, gemm.half_k);
    fmt::print("# {} attention passes, median error {:.1f}%, largest {:.1f}%\n",
               samples.attention.size(), 100 * attention_quality.median_error,
               100 * attention_quality.largest_error);
    fmt::print("attention = {{ forward = {:.3f}, backward = {:.3f}, half_rows = {:.0f} }}\n\n",
               attention.forward, attention.backward, attention.half_rows);
    worst_median = std::max(worst_median, gemm_quality.median_error);
  }
  fmt::print("gemm-fit-median-error {:.4f}\n", worst_median);
  return 0;
}
