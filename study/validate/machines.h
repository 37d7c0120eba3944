#pragma once
// What the device labels of published measurements stand for: data/validation/machines.toml.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/cluster.h"
#include "study/validate/measured_step.h"

namespace orrery::study {

/// A device label ("A100-80") as a node type and a network to put any number of such nodes on.
struct Machine {
  std::string label;
  /// Sources whose steps ran on it; empty: those of the label that no other entry lists.
  std::vector<std::string> sources;
  core::NodeType node;
  core::Network network;
  core::Collectives collectives;
  // What it may be as well, where nobody published a measurement of it.
  std::optional<double> other_network_efficiency;
  std::optional<core::GemmEfficiency> other_gemm;
  /// Share of the peak that FlashAttention-2 reaches, where it is not the device's attention.
  std::optional<double> flash2;
};

using Machines = std::vector<Machine>;

/// [[machine]] tables with `label`, `cluster` (a cluster file: its first node type, network and library),
/// `source`, and optionally `sources`, `device` (a device file in place of that cluster's),
/// `other_network_efficiency`, `other_gemm` (as a device's `gemm`) and `flash2`.
/// @throws ConfigError
Machines read_machines(const std::filesystem::path&);

/// What the step ran on; null where its label is not known.
const Machine* machine_of(const Machines&, const MeasuredStep&);

/// `devices` devices in nodes of `per_node`, whose cards together carry `node_network` (absent: as
/// the machine's).
core::Cluster cluster_of(const Machine&, int devices, int per_node,
                         const std::optional<core::BytesPerSecond>& node_network);

}  // namespace orrery::study
