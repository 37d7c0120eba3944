#include "app/calibrate_command.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/output_file.h"
#include "app/progress.h"
#include "app/table.h"
#include "core/config/write.h"
#include "core/error.h"
#include "core/quantity_text.h"
#include "study/calibrate.h"

namespace orrery::app {
namespace {

namespace fs = std::filesystem;

fs::path make_folder(const std::string& name) {
  std::error_code error;
  fs::create_directories(name, error);
  if (error) {
    throw core::ConfigError(
        fmt::format("--output {}: no such folder can be made: {}", name, error.message()));
  }
  check_writable(fs::path(name) / "cluster-1.toml");
  return name;
}

fs::path file_of(const fs::path& folder, const study::CalibratedCluster& calibrated) {
  return folder / fmt::format("cluster-{}.toml", calibrated.cluster.devices());
}

const core::NodeType& node_of(const study::CalibratedCluster& calibrated) {
  return calibrated.cluster.groups.front().type;
}

std::string clusters_text(const fs::path& folder,
                          const std::vector<study::CalibratedCluster>& clusters) {
  Table table({"cluster file", "peak per rank", "memory", "call", "link", "latency"});
  for (const auto& calibrated : clusters) {
    const core::NodeType& node = node_of(calibrated);
    table.add({file_of(folder, calibrated).string(), core::text(node.device.peak.begin()->second),
               core::text(node.device.memory_bandwidth), core::text(node.device.launch),
               core::text(node.device_link.bandwidth), core::text(node.device_link.latency)});
  }
  return table.text();
}

std::string quality_text(const study::CalibratedCluster& calibrated) {
  Table table({"operator", "samples", "median error", "largest error"});
  for (const study::OperatorFit& fit : calibrated.quality) {
    table.add({fit.name, std::to_string(fit.samples), core::percent(fit.median_error),
               core::percent(fit.largest_error)});
  }
  return table.text();
}

nlohmann::json json_of(const fs::path& folder, const study::CalibratedCluster& calibrated) {
  const core::NodeType& node = node_of(calibrated);
  nlohmann::json json = {{"file", file_of(folder, calibrated).string()},
                         {"ranks", node.devices},
                         {"cores", node.cores},
                         {"peak_flops_per_second", node.device.peak.begin()->second.value},
                         {"memory_bytes_per_second", node.device.memory_bandwidth.value},
                         {"launch_seconds", node.device.launch.value},
                         {"link_bytes_per_second", node.device_link.bandwidth.value},
                         {"link_latency_seconds", node.device_link.latency.value}};
  for (const study::OperatorFit& fit : calibrated.quality) {
    json["median_fit_error"][fit.name] = fit.median_error;
  }
  return json;
}

// Every rank is a thread here, and every pair of them is measured.
int most_ranks() { return std::max(64, static_cast<int>(2 * std::thread::hardware_concurrency())); }

CLI::Validator one_or_even() {
  return {[](const std::string& text) {
            int ranks = 0;
            const bool number = CLI::detail::lexical_cast(text, ranks);
            const bool allowed =
                number && (ranks == 1 || (ranks > 0 && ranks % 2 == 0 && ranks <= most_ranks()));
            return allowed ? std::string()
                           : fmt::format("{} is neither 1 nor an even number up to {}", text,
                                         most_ranks());
          },
          "1 or even"};
}

}  // namespace

CLI::App* declare_calibrate(CLI::App& app, CalibrateFlags& flags) {
  CLI::App* command = app.add_subcommand(
      "calibrate", "Measures this machine and writes it as cluster files for plan and simulate.");
  command->add_option("-o,--output", flags.output, "Folder for cluster-1.toml, cluster-2.toml, ...")
      ->required();
  command->add_option("--ranks", flags.ranks, "Numbers of ranks to describe the machine for")
      ->delimiter(',')
      ->check(one_or_even())
      ->capture_default_str();
  command->add_flag("--json", flags.json, "Print JSON");
  command->footer(
      "Takes about a minute; other work on the machine falsifies it.\n"
      "Example:\n  orrery calibrate --ranks 1,2,4 -o machine");
  return command;
}

void run_calibrate(const CalibrateFlags& flags) {
  const fs::path folder = make_folder(flags.output);
  std::vector<study::CalibratedCluster> clusters;
  {
    Progress progress;
    study::CalibrateOptions options;
    options.ranks = flags.ranks;
    options.progress = [&](const std::string& what) { progress.say(what); };
    clusters = study::calibrate(options);
  }
  for (const auto& calibrated : clusters) {
    core::write_cluster(file_of(folder, calibrated), calibrated.cluster,
                        "orrery calibrate, " + study::processor_name());
  }
  if (flags.json) {
    nlohmann::json json = nlohmann::json::array();
    for (const auto& calibrated : clusters) json.push_back(json_of(folder, calibrated));
    fmt::print("{}\n", json.dump(2));
    return;
  }
  fmt::print("{}\n{}", clusters_text(folder, clusters), quality_text(clusters.back()));
}

}  // namespace orrery::app
