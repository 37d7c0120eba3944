// Fits GemmEfficiency and AttentionEfficiency per device from data/validation/gemm_tflops.csv and
// prints the TOML lines for configs/devices. Run by bench/fit_gemm.sh.

#include <fmt/core.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "costmodel/efficiency_fit.h"
#include "study/validate/csv_table.h"

namespace {

using orrery::costmodel::AttentionSample;
using orrery::costmodel::GemmSample;

struct Samples {
  std::vector<GemmSample> gemm;
  std::vector<AttentionSample> attention;
};

// The integer after "name=" in a key such as "batch=1, seq_len=4096, head_num=32".
double value_in(const std::string& key, const std::string& name) {
  const auto at = key.find(name + "=");
  if (at == std::string::npos) return 0;
  return std::strtod(key.c_str() + at + name.size() + 1, nullptr);
}

std::map<std::string, Samples> read_samples(const std::string& path) {
  std::map<std::string, Samples> devices;
  const orrery::study::CsvTable table(path);
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const auto text = [&](const char* column) { return table.at(row, column); };
    const auto size = [&](const char* column) { return std::atoll(text(column).c_str()); };
    if (text("id").rfind("simumax", 0) != 0) continue;
    const double share = std::strtod(text("efficiency").c_str(), nullptr);
    const std::string op = text("op");
    const std::string key = text("dtype_or_key");
    Samples& samples = devices[text("gpu")];
    if (op == "matmul") {
      samples.gemm.push_back({{.m = size("m"), .n = size("n"), .k = size("k")}, share});
    } else if (op == "sdp_fwd" || op == "sdp_bwd") {
      // The source counts all T² pairs of a causal mask; half of them are computed.
      samples.attention.push_back(
          {.rows = value_in(key, "batch") * value_in(key, "seq_len") * value_in(key, " head_num"),
           .backward = op == "sdp_bwd",
           .share = share / 2.0});
    }
  }
  return devices;
}

/// Multiprocessors. Source: NVIDIA A100 and Blackwell architecture white papers.
int processors_of(const std::string& gpu) { return gpu.rfind("A100", 0) == 0 ? 108 : 148; }

/// Prints whichever form is closer to the samples; gives its median error.
double print_better(const std::string& gpu, const orrery::core::GemmEfficiency& smooth,
                    const orrery::core::GemmEfficiency& tiled,
                    const std::vector<GemmSample>& samples) {
  const auto of_smooth = quality(smooth, samples);
  const auto of_tiled = quality(tiled, samples);
  const bool tiles = of_tiled.median_error < of_smooth.median_error;
  const auto& gemm = tiles ? tiled : smooth;
  const auto& error = tiles ? of_tiled : of_smooth;
  fmt::print("# {}: {} products, median error {:.1f}%, largest {:.1f}% ({}: {:.1f}%, {:.1f}%)\n",
             gpu, samples.size(), 100 * error.median_error, 100 * error.largest_error,
             tiles ? "without tiles" : "with tiles",
             100 * (tiles ? of_smooth : of_tiled).median_error,
             100 * (tiles ? of_smooth : of_tiled).largest_error);
  fmt::print("gemm = {{ ceiling = {:.3f}, half_m = {:.1f}, half_n = {:.1f}, half_k = {:.1f} }}\n",
             gemm.ceiling, gemm.half_m, gemm.half_n, gemm.half_k);
  if (tiles) {
    fmt::print("gemm.tiles = {{ processors = {}, medium = {:.3f}, small = {:.3f} }}\n",
               gemm.tiles->processors, gemm.tiles->medium, gemm.tiles->small);
  }
  return error.median_error;
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
    const auto smooth = orrery::costmodel::fit_gemm(samples.gemm);
    const auto tiled = orrery::costmodel::fit_gemm_tiles(samples.gemm, processors_of(gpu));
    worst_median = std::max(worst_median, print_better(gpu, smooth, tiled, samples.gemm));
    const auto attention = orrery::costmodel::fit_attention(samples.attention);
    const auto attention_quality = orrery::costmodel::quality(attention, samples.attention);
    fmt::print("# {} attention passes, median error {:.1f}%, largest {:.1f}%\n",
               samples.attention.size(), 100 * attention_quality.median_error,
               100 * attention_quality.largest_error);
    fmt::print("attention = {{ forward = {:.3f}, backward = {:.3f}, half_rows = {:.0f} }}\n\n",
               attention.forward, attention.backward, attention.half_rows);
  }
  fmt::print("gemm-fit-median-error {:.4f}\n", worst_median);
  return 0;
}
