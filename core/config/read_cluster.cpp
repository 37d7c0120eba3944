#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/config/read.h"
#include "core/config/read_network.h"
#include "core/config/table_reader.h"
#include "core/operator.h"

namespace orrery::core {

namespace {

GemmTiles read_tiles(TableReader reader) {
  GemmTiles tiles;
  tiles.processors = reader.count("processors", 1, 1'000'000);
  tiles.medium = reader.constant("medium", {1e-6, 1});
  tiles.small = reader.constant("small", {1e-6, 1});
  reader.finish();
  return tiles;
}

GemmEfficiency read_gemm(TableReader reader) {
  GemmEfficiency gemm;
  gemm.ceiling = reader.constant("ceiling", {1e-6, 1});
  gemm.half_m = reader.constant("half_m", {0, 1e9});
  gemm.half_n = reader.constant("half_n", {0, 1e9});
  gemm.half_k = reader.constant("half_k", {0, 1e9});
  if (reader.has("tiles")) gemm.tiles = read_tiles(reader.table("tiles"));
  reader.finish();
  return gemm;
}

AttentionEfficiency read_attention(TableReader reader) {
  AttentionEfficiency attention;
  attention.forward = reader.constant("forward", {1e-6, 1});
  attention.backward = reader.constant("backward", {1e-6, 1});
  attention.half_rows = reader.constant("half_rows", {0, 1e12});
  reader.finish();
  return attention;
}

std::map<DType, FlopsPerSecond> read_peaks(TableReader reader) {
  std::map<DType, FlopsPerSecond> peaks;
  for (const DType dtype :
       {DType::Float32, DType::Tf32, DType::Float16, DType::BFloat16, DType::Float8}) {
    const std::string_view name = dtype_name(dtype);
    if (reader.has(name)) peaks[dtype] = reader.quantity<FlopsPerSecond>(name);
  }
  reader.finish();
  if (peaks.empty()) reader.fail("float32", "is missing; a device needs at least one peak");
  return peaks;
}

std::map<std::string, OperatorRate> read_operators(TableReader reader) {
  const std::vector<std::string_view>& known = operator_names();
  std::map<std::string, OperatorRate> rates;
  for (const std::string_view name : known) {
    if (!reader.has(name)) continue;
    TableReader entry = reader.table(name);
    rates[std::string(name)] = {entry.quantity<Seconds>("per_call", Sign::NonNegative),
                                entry.quantity<BytesPerSecond>("rate")};
    entry.finish();
  }
  reader.finish();
  return rates;
}

Device device_from(TableReader reader) {
  Device device;
  device.name = reader.text("name");
  device.kind =
      reader.choice<DeviceKind>("kind", {{"gpu", DeviceKind::Gpu}, {"cpu", DeviceKind::Cpu}});
  device.memory = reader.quantity<Bytes>("memory");
  device.memory_bandwidth = reader.quantity<BytesPerSecond>("memory_bandwidth");
  device.memory_efficiency = reader.constant("memory_efficiency", {1e-6, 1});
  device.launch = reader.quantity<Seconds>("launch", Sign::NonNegative);
  if (reader.has("gap")) device.gap = reader.quantity<Seconds>("gap", Sign::NonNegative);
  if (reader.has("beside_communication")) {
    if (device.kind != DeviceKind::Gpu) {
      reader.fail("beside_communication",
                  "is of a GPU; a CPU's ranks share their cores with what they communicate");
    }
    device.beside_communication = reader.constant("beside_communication", {1, 10});
  }
  device.reserved = reader.quantity<Bytes>("reserved", Sign::NonNegative);
  if (device.reserved >= device.memory) reader.fail("reserved", "leaves nothing of the memory");
  device.peak = read_peaks(reader.table("peak"));
  device.gemm = read_gemm(reader.table("gemm"));
  if (reader.has("attention")) device.attention = read_attention(reader.table("attention"));
  if (reader.has("operators")) device.operators = read_operators(reader.table("operators"));
  if (reader.has("price")) {
    device.price_per_hour = reader.quantity("price", Dimension::Price, Sign::NonNegative);
  }
  if (reader.has("power")) {
    device.power_watts = reader.quantity("power", Dimension::Power, Sign::Positive);
  }
  reader.finish();
  return device;
}

NodeType read_node_type(TableReader& reader, const std::filesystem::path& file) {
  NodeType type;
  type.name = reader.text("name");
  type.devices = reader.count("devices", 1, kMaxPerNode);
  type.cores = reader.count("cores", 1, kMaxPerNode);
  type.fabric = reader.choice<NodeFabric>("fabric", {{"switch", NodeFabric::Switch},
                                                     {"cube-mesh", NodeFabric::CubeMesh},
                                                     {"pcie-tree", NodeFabric::PcieTree},
                                                     {"memory", NodeFabric::Memory}});
  type.device = reader.is_text("device") ? read_device(resolve_beside(file, reader.text("device")))
                                         : device_from(reader.table("device"));
  if (type.fabric == NodeFabric::PcieTree && reader.has("devices_per_switch")) {
    type.devices_per_switch = reader.count("devices_per_switch", 1, type.devices);
  }
  type.device_link = read_link(reader.table("device_link"));
  type.host_memory = reader.quantity<Bytes>("host_memory");
  type.network_cards = reader.count("network_cards", 0, kMaxPerNode);
  if (type.network_cards > 0) type.network_card = read_link(reader.table("network_card"));
  return type;
}

ProtocolCost read_protocol(TableReader reader) {
  ProtocolCost cost;
  cost.step = reader.constant("step", {1e-6, 1e3});
  cost.network_step = reader.constant("network_step", {1e-6, 1e3});
  cost.wire = reader.constant("wire", {1, 100});
  reader.finish();
  return cost;
}

InSwitchCost read_in_switch(TableReader reader) {
  InSwitchCost cost;
  cost.latency = reader.quantity<Seconds>("latency", Sign::NonNegative);
  cost.wire = reader.constant("wire", {1, 100});
  reader.finish();
  return cost;
}

Collectives read_collectives(TableReader reader) {
  Collectives c;
  c.library = reader.choice<CollectiveLibrary>(
      "library", {{"nccl", CollectiveLibrary::Nccl}, {"all-pairs", CollectiveLibrary::AllPairs}});
  if (c.library == CollectiveLibrary::AllPairs) {
    if (reader.has("reduction")) c.reduction = reader.quantity<BytesPerSecond>("reduction");
    reader.finish();
    return c;
  }
  if (reader.has("base")) c.base = reader.quantity<Seconds>("base", Sign::NonNegative);
  if (reader.has("ring_ends")) c.ring_ends = reader.constant("ring_ends", {0, 100});
  if (reader.has("tree_wire")) c.tree_wire = reader.constant("tree_wire", {1, 100});
  if (reader.has("ll128")) c.ll128 = read_protocol(reader.table("ll128"));
  if (reader.has("ll")) c.ll = read_protocol(reader.table("ll"));
  if (reader.has("in_switch")) c.in_switch = read_in_switch(reader.table("in_switch"));
  reader.finish();
  return c;
}

void check_connected(TableReader& reader, const Cluster& cluster) {
  if (cluster.nodes() == 1) return;
  if (cluster.network.kind == NetworkKind::None) {
    reader.fail("network", fmt::format("kind = \"none\" cannot join {} nodes; use \"star\" or "
                                       "\"fat-tree\"",
                                       cluster.nodes()));
  }
  for (const NodeGroup& group : cluster.groups) {
    if (group.type.network_cards > 0) continue;
    reader.fail("nodes", fmt::format("\"{}\" has no network_cards in a cluster of {} nodes",
                                     group.type.name, cluster.nodes()));
  }
}

}  // namespace

Device read_device(const std::filesystem::path& path) {
  const ConfigValue value = parse_toml_file(path);
  return device_from(TableReader(path.string(), value, Sources::Required));
}

namespace {

// Files that name each other are found out by their number.
constexpr int kMostParts = 8;

Cluster read_cluster(const std::filesystem::path& path, int parts);

/// name, part_of, devices.
Cluster read_part(TableReader& reader, const std::filesystem::path& path, int parts) {
  const std::string name = reader.text("name");
  const std::filesystem::path whole_file = resolve_beside(path, reader.text("part_of"));
  const int devices = reader.count("devices", 1, static_cast<int>(kMaxDevices));
  reader.finish();
  if (parts == kMostParts) {
    reader.fail("part_of", fmt::format("is a part of a part more than {} files deep, or of itself",
                                       kMostParts));
  }
  std::error_code unknown;
  if (!std::filesystem::exists(whole_file, unknown)) {
    reader.fail("part_of", fmt::format("there is no file {}", whole_file.string()));
  }
  const Cluster whole = read_cluster(whole_file, parts + 1);
  if (devices > whole.devices()) {
    reader.fail("devices",
                fmt::format("{} of \"{}\", which has {}", devices, whole.name, whole.devices()));
  }
  std::optional<Cluster> part = try_part_of(whole, devices);
  if (!part) {
    reader.fail("devices", fmt::format("{} of \"{}\" are neither whole nodes nor a part of one, "
                                       "whose nodes have {}",
                                       devices, whole.name, whole.node_type(0).devices));
  }
  part->name = name;
  return *std::move(part);
}

Cluster read_cluster(const std::filesystem::path& path, int parts) {
  const ConfigValue value = parse_toml_file(path);
  TableReader reader(path.string(), value, Sources::Required);
  if (reader.has("part_of")) return read_part(reader, path, parts);
  Cluster cluster;
  cluster.name = reader.text("name");
  std::int64_t nodes = 0;
  std::int64_t devices = 0;
  for (TableReader& group : reader.tables("nodes")) {
    const int count = group.count("count", 1, kMaxNodes);
    cluster.groups.push_back({read_node_type(group, path), count});
    group.finish();
    nodes += count;
    devices += std::int64_t{count} * cluster.groups.back().type.devices;
  }
  if (nodes > kMaxNodes || devices > kMaxDevices) {
    reader.fail("nodes", fmt::format("{} nodes with {} devices; allowed are at most {} and {}",
                                     nodes, devices, kMaxNodes, kMaxDevices));
  }
  cluster.network = read_network(reader.table("network"), path, cluster.groups);
  if (reader.has("collectives")) {
    cluster.collectives = read_collectives(reader.table("collectives"));
  }
  reader.finish();
  check_connected(reader, cluster);
  return cluster;
}

}  // namespace

Cluster read_cluster(const std::filesystem::path& path) { return read_cluster(path, 0); }

}  // namespace orrery::core
