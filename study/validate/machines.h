#pragma once
// What the device labels of published measurements stand for: data/validation/machines.toml.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/cluster.h"

namespace orrery::study {

/// A device label ("A100-80") as a node type and a network to put any number of such nodes on.
struct Machine {
  core::NodeType node;
  core::Network network;
  core::Collectives collectives;
};

using Machines = std::map<std::string, Machine>;

/// [[machine]] tables with `label`, `cluster` (a cluster file: its first node type, network and library),
/// optionally `device` (a device file in place of that cluster's), and `source`.
/// @throws ConfigError
Machines read_machines(const std::filesystem::path&);

/// `devices` devices in nodes of `per_node`, whose cards together carry `node_network` (absent: as
/// the machine's).
core::Cluster cluster_of(const Machine&, int devices, int per_node,
                         const std::optional<core::BytesPerSecond>& node_network);

}  // namespace orrery::study
