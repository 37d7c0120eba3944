#include "study/validate/machines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/config/read.h"
#include "core/config/table_reader.h"
#include "study/validate/source_entries.h"

namespace orrery::study {

namespace {

core::GemmTiles read_tiles(core::TableReader reader) {
  core::GemmTiles tiles;
  tiles.processors = reader.count("processors", 1, 100'000);
  tiles.medium = reader.number("medium", {1e-6, 1});
  tiles.small = reader.number("small", {1e-6, 1});
  reader.finish();
  return tiles;
}

core::GemmEfficiency read_other_gemm(core::TableReader reader) {
  core::GemmEfficiency gemm;
  reader.text("source");
  gemm.ceiling = reader.number("ceiling", {1e-6, 1});
  gemm.half_m = reader.number("half_m", {0, 1e9});
  gemm.half_n = reader.number("half_n", {0, 1e9});
  gemm.half_k = reader.number("half_k", {0, 1e9});
  if (reader.has("tiles")) gemm.tiles = read_tiles(reader.table("tiles"));
  reader.finish();
  return gemm;
}

Machine read_machine(core::TableReader& entry, const std::filesystem::path& path) {
  const auto cluster = core::read_cluster(core::resolve_beside(path, entry.text("cluster")));
  Machine machine;
  machine.label = entry.text("label");
  if (entry.has("sources")) machine.sources = entry.texts("sources");
  machine.node = cluster.groups.front().type;
  machine.network = cluster.network;
  machine.collectives = cluster.collectives;
  if (entry.has("device")) {
    machine.node.device = core::read_device(core::resolve_beside(path, entry.text("device")));
  }
  if (entry.has("other_network_efficiency")) {
    machine.other_network_efficiency = entry.constant("other_network_efficiency", {0.01, 1});
  }
  if (entry.has("other_gemm")) machine.other_gemm = read_other_gemm(entry.table("other_gemm"));
  if (entry.has("flash2")) machine.flash2 = entry.constant("flash2", {0.01, 1});
  entry.text("source");
  entry.finish();
  return machine;
}

}  // namespace

Machines read_machines(const std::filesystem::path& path) {
  const core::ConfigValue root = core::parse_toml_file(path);
  core::TableReader reader(path.string(), root, core::Sources::Required);
  Machines machines;
  for (core::TableReader& entry : reader.tables("machine")) {
    const Machine machine = read_machine(entry, path);
    const bool twice = std::any_of(machines.begin(), machines.end(), [&](const Machine& other) {
      return other.label == machine.label && about_the_same(other, machine);
    });
    if (twice) entry.fail("label", "is there twice, for the same sources");
    machines.push_back(machine);
  }
  reader.finish();
  return machines;
}

const Machine* machine_of(const Machines& machines, const MeasuredStep& step) {
  return entry_of(machines, &Machine::label, step.device, step.source);
}

core::Cluster cluster_of(const Machine& machine, int devices, int per_node,
                         const std::optional<core::BytesPerSecond>& node_network) {
  core::Cluster cluster;
  core::NodeType node = machine.node;
  node.devices = std::min(per_node, devices);
  cluster.name = fmt::format("{} x {}", devices, node.device.name);
  if (node_network) {
    // Cards of the machine's own rate where they make up the total, one card otherwise.
    const double cards = *node_network / node.network_card.bandwidth;
    node.network_cards = std::max(1, static_cast<int>(std::lround(cards)));
    node.network_card.bandwidth = *node_network * (1.0 / node.network_cards);
  }
  node.network_cards = std::min(node.network_cards, std::max(1, node.devices));
  cluster.network = machine.network;
  cluster.collectives = machine.collectives;
  cluster.groups = {{node, (devices + node.devices - 1) / node.devices}};
  return cluster;
}

}  // namespace orrery::study
