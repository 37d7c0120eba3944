#include "study/calibrate.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <thread>

#include "core/error.h"
#include "core/lowering/lowering.h"
#include "engine/execute.h"
#include "study/fabric_probe.h"
#include "study/memory_bandwidth.h"
#include "study/operator_probe.h"

namespace orrery::study {
namespace {

namespace fs = std::filesystem;

/// A folder that ends with its scope.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (fs::temp_directory_path() / "orrery-calibrate-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) {
      throw core::SystemError(fmt::format("{}: cannot make a folder", pattern));
    }
    path_ = pattern;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

fs::path write_text(const fs::path& path) {
  constexpr int kTextBytes = 1 << 18;
  std::mt19937 random(1);
  std::ofstream file(path);
  for (int i = 0; i < kTextBytes; ++i) file << static_cast<char>('a' + random() % 26);
  return path;
}

// Lines of the Criteo layout: label, 13 numbers, 26 categories.
fs::path write_samples(const fs::path& path, int samples) {
  std::mt19937 random(1);
  std::ofstream file(path);
  for (int s = 0; s < samples; ++s) {
    file << random() % 2;
    for (int i = 0; i < 13; ++i) file << '\t' << random() % 1000;
    for (int i = 0; i < 26; ++i) file << '\t' << fmt::format("{:08x}", random() % 5000);
    file << '\n';
  }
  return path;
}

core::Bytes physical_memory() {
  return core::Bytes(static_cast<double>(sysconf(_SC_PHYS_PAGES)) *
                     static_cast<double>(sysconf(_SC_PAGESIZE)));
}

/// What the process holds before it trains: its code, libraries and tables.
core::Bytes resident_memory() {
  std::ifstream file("/proc/self/statm");
  double total = 0, resident = 0;
  file >> total >> resident;
  return core::Bytes(resident * static_cast<double>(sysconf(_SC_PAGESIZE)));
}

class Calibration {
 public:
  explicit Calibration(const CalibrateOptions& options)
      : options_(options),
        cores_(std::max(1, static_cast<int>(std::thread::hardware_concurrency()))) {
    text_ = write_text(scratch_.path() / "text");
    const int most = *std::max_element(options.ranks.begin(), options.ranks.end());
    samples_ = write_samples(scratch_.path() / "samples.tsv",
                             kProbeSteps * kClickThroughBatch * std::min(most, cores_));
  }

  CalibratedCluster cluster_of(int ranks) {
    const DeviceFit& fit = device_of(std::min(ranks, cores_));
    CalibratedCluster calibrated{one_node(fit.device, ranks, cores_), fit.quality};
    core::NodeType& node = calibrated.cluster.groups.front().type;
    node.host_memory = physical_memory();
    node.device.memory = physical_memory() / ranks;
    node.device.reserved = resident_memory() / ranks;
    calibrated.cluster.name = fmt::format("this machine, {} rank{}", ranks, ranks > 1 ? "s" : "");
    // A single rank has no one to exchange with; its fabric is that of two.
    const FabricFit& fabric = fabric_of(std::max(2, ranks), node.device);
    node.device_link = fabric.link;
    calibrated.cluster.collectives.reduction = fabric.reduction;
    return calibrated;
  }

 private:
  void say(const std::string& what) const {
    if (options_.progress) options_.progress(what);
  }

  core::Trace run(const OperatorProbe& probe, const core::Program& program) const {
    engine::ExecuteOptions options;
    options.steps = kProbeSteps;
    options.threads = 1;  // A rank is one core: what the simulator shares among ranks.
    return engine::execute(program, probe.job, options);
  }

  /// The device as each of `ranks` busy ranks has it.
  const DeviceFit& device_of(int ranks) {
    const auto known = devices_.find(ranks);
    if (known != devices_.end()) return known->second;
    core::Device device;
    device.name =
        fmt::format("{}, one of {} rank{}", processor_name(), ranks, ranks > 1 ? "s" : "");
    device.kind = core::DeviceKind::Cpu;
    say(fmt::format("{} ranks: memory bandwidth", ranks));
    device.memory_bandwidth = measure_memory_bandwidth(ranks);
    std::vector<OperatorProbe> probes = transformer_probes(ranks, text_);
    for (auto& probe : click_through_probes(ranks, samples_)) probes.push_back(std::move(probe));
    std::vector<OperatorSample> samples;
    for (std::size_t p = 0; p < probes.size(); ++p) {
      say(fmt::format("{} ranks: operators, {} of {}", ranks, p + 1, probes.size()));
      const core::Program program = core::lower(probes[p].plan, probes[p].model,
                                                one_node(device, ranks, cores_), probes[p].job);
      const auto measured = operator_samples(program, run(probes[p], program));
      samples.insert(samples.end(), measured.begin(), measured.end());
    }
    return devices_.emplace(ranks, fit_device(device, samples)).first->second;
  }

  const FabricFit& fabric_of(int ranks, const core::Device& device) {
    const auto known = fabrics_.find(ranks);
    if (known != fabrics_.end()) return known->second;
    say(fmt::format("{} ranks: collectives and messages", ranks));
    // From a loss to the gradients of a small model: 64 B to 4 MiB.
    std::vector<std::int64_t> counts;
    for (std::int64_t count = 16; count <= (1 << 20); count *= 4) {
      counts.push_back((count + ranks - 1) / ranks * ranks);
    }
    const core::Program probe = fabric_probe(ranks, counts);
    constexpr int kFabricSteps = 30;
    engine::ExecuteOptions options;
    options.steps = kFabricSteps;
    const core::Trace trace = engine::execute(probe, core::Job{}, options);
    const FabricFit fit = fit_fabric(one_node(device, ranks, cores_), fabric_samples(probe, trace));
    return fabrics_.emplace(ranks, fit).first->second;
  }

  const CalibrateOptions& options_;
  int cores_;
  ScratchFolder scratch_;
  fs::path text_;
  fs::path samples_;
  std::map<int, DeviceFit> devices_;  // By ranks that computed at once.
  std::map<int, FabricFit> fabrics_;  // By ranks that exchanged.
};

}  // namespace

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "CPU";
}

std::vector<CalibratedCluster> calibrate(const CalibrateOptions& options) {
  for (const int ranks : options.ranks) {
    if (ranks == 1 || (ranks > 0 && ranks % 2 == 0)) continue;
    throw core::ConfigError(fmt::format("ranks: {}: calibration needs 1 or an even number", ranks));
  }
  ORRERY_CHECK(!options.ranks.empty(), "calibration for at least one number of ranks");
  Calibration calibration(options);
  std::vector<CalibratedCluster> clusters;
  for (const int ranks : options.ranks) clusters.push_back(calibration.cluster_of(ranks));
  return clusters;
}

}  // namespace orrery::study
