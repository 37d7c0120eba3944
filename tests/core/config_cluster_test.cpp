// Devices and clusters: reading, refusing, writing and reading back.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/config/atomic_file.h"
#include "core/config/read.h"
#include "core/config/write.h"
#include "core/error.h"
#include "tests/core/temporary_folder.h"

namespace orrery::core {
namespace {

using namespace literals;
using ::testing::HasSubstr;

const char* const kDevice = R"(name = "card"
kind = "gpu"
memory = { value = "80 GB", source = "data sheet" }
memory_bandwidth = { value = "3.35 TB/s", source = "data sheet" }
memory_efficiency = { value = 0.9, source = "measured" }
launch = { value = "4 us", source = "measured", between = ["2 us", "6 us"] }
reserved = { value = "2 GiB", source = "assumed" }
power = { value = "700 W", source = "data sheet" }
price = { value = "2.5 USD/h", source = "list price" }

[peak]
source = "data sheet, dense"
float32 = "67 TFLOP/s"
bfloat16 = "989 TFLOP/s"

[gemm]
source = "fit"
ceiling = 0.8
half_m = 100
half_n = 90.5
half_k = 60

[attention]
source = "fit"
forward = 0.55
backward = 0.5
half_rows = 12000

[operators.normalize]
source = "measured"
per_call = "5 us"
rate = "2 TB/s"
)";

const char* const kCluster = R"(name = "pod"

[network]
kind = "fat-tree"
source = "reference design"
hop_latency = "0.3 us"
efficiency = 0.9
nodes_per_leaf = 4
oversubscription = 2

[[nodes]]
name = "box"
count = 16
devices = 8
cores = 112
fabric = "switch"
device = "card.toml"
source = "user guide"
device_link = { bandwidth = "450 GB/s", latency = "1 us" }
host_memory = "2 TB"
network_cards = 8
network_card = { bandwidth = "400 Gbit/s", latency = "3 us" }
)";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string device_error(const std::string& content) {
  const TemporaryFolder folder;
  const auto file = folder.write("card.toml", content);
  try {
    read_device(file);
  } catch (const ConfigError& error) {
    return std::string(error.what()).substr(file.string().size());
  }
  return "no error";
}

std::string cluster_error(const std::string& content) {
  const TemporaryFolder folder;
  folder.write("card.toml", kDevice);
  const auto file = folder.write("pod.toml", content);
  try {
    read_cluster(file);
  } catch (const ConfigError& error) {
    return std::string(error.what()).substr(file.string().size());
  }
  return "no error";
}

TEST(DeviceFile, IsRead) {
  const TemporaryFolder folder;
  const Device device = read_device(folder.write("card.toml", kDevice));
  EXPECT_EQ(device.name, "card");
  EXPECT_EQ(device.kind, DeviceKind::Gpu);
  EXPECT_EQ(device.memory, 80.0_GB);
  EXPECT_EQ(device.memory_bandwidth, 3350.0_GBps);
  EXPECT_EQ(device.memory_efficiency, 0.9);
  EXPECT_EQ(device.launch, 4.0_us);
  EXPECT_EQ(device.reserved, 2.0_GiB);
  EXPECT_EQ(device.power_watts, 700);
  EXPECT_EQ(device.price_per_hour, 2.5);
  EXPECT_EQ(device.peak.at(DType::BFloat16), 989.0_TFLOPs);
  EXPECT_EQ(device.peak.count(DType::Float8), 0U);
  EXPECT_EQ(device.gemm.half_n, 90.5);
  EXPECT_EQ(device.attention->forward, 0.55);
  EXPECT_EQ(device.operators.at("normalize").per_call, 5.0_us);
}

TEST(ClusterFile, IsReadWithItsDeviceFile) {
  const TemporaryFolder folder;
  folder.write("card.toml", kDevice);
  const Cluster cluster = read_cluster(folder.write("pod.toml", kCluster));
  EXPECT_EQ(cluster.devices(), 128);
  const NodeType& type = cluster.groups.front().type;
  EXPECT_EQ(type.device.name, "card");
  EXPECT_EQ(type.device_link.bandwidth, 450.0_GBps);
  EXPECT_EQ(type.network_card.bandwidth, 50.0_GBps);
  EXPECT_EQ(cluster.network.kind, NetworkKind::FatTree);
  EXPECT_EQ(cluster.network.oversubscription, 2);
}

void expect_equal(const Device& a, const Device& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.memory, b.memory);
  EXPECT_EQ(a.memory_bandwidth, b.memory_bandwidth);
  EXPECT_EQ(a.memory_efficiency, b.memory_efficiency);
  EXPECT_EQ(a.peak, b.peak);
  EXPECT_EQ(a.gemm.ceiling, b.gemm.ceiling);
  EXPECT_EQ(a.gemm.half_m, b.gemm.half_m);
  EXPECT_EQ(a.gemm.half_n, b.gemm.half_n);
  EXPECT_EQ(a.gemm.half_k, b.gemm.half_k);
  ASSERT_EQ(a.attention.has_value(), b.attention.has_value());
  EXPECT_EQ(a.attention->forward, b.attention->forward);
  EXPECT_EQ(a.attention->backward, b.attention->backward);
  EXPECT_EQ(a.attention->half_rows, b.attention->half_rows);
  EXPECT_EQ(a.launch, b.launch);
  EXPECT_EQ(a.reserved, b.reserved);
  EXPECT_EQ(a.price_per_hour, b.price_per_hour);
  EXPECT_EQ(a.power_watts, b.power_watts);
  ASSERT_EQ(a.operators.size(), b.operators.size());
  for (const auto& [name, rate] : a.operators) {
    EXPECT_EQ(rate.per_call, b.operators.at(name).per_call);
    EXPECT_EQ(rate.rate, b.operators.at(name).rate);
  }
}

TEST(DeviceFile, RoundTrips) {
  const TemporaryFolder folder;
  Device device = read_device(folder.write("card.toml", kDevice));
  device.memory_bandwidth = BytesPerSecond(1e12 / 3);  // No round number.
  device.gemm.tiles = GemmTiles{.processors = 132, .medium = 0.9, .small = 0.5};
  device.operators["attention_grad"] = {Seconds(1e-6 / 7), BytesPerSecond(1e11 / 9)};
  write_device(folder.path() / "again.toml", device, "a \"test\" \\ of quoting");
  expect_equal(read_device(folder.path() / "again.toml"), device);
}

TEST(ClusterFile, RoundTrips) {
  const TemporaryFolder folder;
  folder.write("card.toml", kDevice);
  Cluster cluster = read_cluster(folder.write("pod.toml", kCluster));
  NodeGroup second = cluster.groups.front();
  second.type.name = "other";
  second.type.device.name = "other card";
  second.type.fabric = NodeFabric::CubeMesh;
  second.count = 3;
  cluster.groups.push_back(second);
  write_cluster(folder.path() / "again.toml", cluster, "test");
  const Cluster again = read_cluster(folder.path() / "again.toml");
  EXPECT_EQ(again.name, cluster.name);
  EXPECT_EQ(again.network.kind, cluster.network.kind);
  EXPECT_EQ(again.network.nodes_per_leaf, cluster.network.nodes_per_leaf);
  EXPECT_EQ(again.network.oversubscription, cluster.network.oversubscription);
  EXPECT_EQ(again.network.hop_latency, cluster.network.hop_latency);
  EXPECT_EQ(again.network.efficiency, cluster.network.efficiency);
  ASSERT_EQ(again.groups.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    const NodeType& a = again.groups[i].type;
    const NodeType& b = cluster.groups[i].type;
    EXPECT_EQ(again.groups[i].count, cluster.groups[i].count);
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.devices, b.devices);
    EXPECT_EQ(a.cores, b.cores);
    EXPECT_EQ(a.fabric, b.fabric);
    EXPECT_EQ(a.device_link.latency, b.device_link.latency);
    EXPECT_EQ(a.device_link.bandwidth, b.device_link.bandwidth);
    EXPECT_EQ(a.network_cards, b.network_cards);
    EXPECT_EQ(a.network_card.latency, b.network_card.latency);
    EXPECT_EQ(a.network_card.bandwidth, b.network_card.bandwidth);
    EXPECT_EQ(a.host_memory, b.host_memory);
    expect_equal(a.device, b.device);
  }
}

const char* const kNccl = R"(
[collectives]
source = "fit"
library = "nccl"
base = "30 us"
ring_ends = 0.5
tree_wire = 1.09
ll128 = { step = 0.3, network_step = 0.4, wire = 1.1 }
ll = { step = 0.1, network_step = 0.2, wire = 2 }
in_switch = { latency = "70 us", wire = 1.2 }
)";

const char* const kAllPairs = R"(
[collectives]
library = "all-pairs"
reduction = { value = "8 GB/s", source = "measured" }
)";

// Both libraries: what is read is written and read again; a key of the other is unknown.
TEST(ClusterFile, CollectivesAreReadAndRoundTrip) {
  const TemporaryFolder folder;
  folder.write("card.toml", kDevice);
  EXPECT_EQ(read_cluster(folder.write("pod.toml", kCluster)).collectives.library,
            CollectiveLibrary::Nccl);
  const Cluster nccl = read_cluster(folder.write("nccl.toml", std::string(kCluster) + kNccl));
  write_cluster(folder.path() / "again.toml", nccl, "test");
  for (const Cluster& cluster : {nccl, read_cluster(folder.path() / "again.toml")}) {
    const Collectives& c = cluster.collectives;
    EXPECT_EQ(c.library, CollectiveLibrary::Nccl);
    EXPECT_EQ(c.base, 30.0_us);
    EXPECT_EQ(c.ring_ends, 0.5);
    EXPECT_EQ(c.tree_wire, 1.09);
    EXPECT_EQ(c.ll128->network_step, 0.4);
    EXPECT_EQ(c.ll->wire, 2);
    EXPECT_EQ(c.in_switch->latency, 70.0_us);
    EXPECT_EQ(c.in_switch->wire, 1.2);
  }
  const Cluster pairs = read_cluster(folder.write("pairs.toml", std::string(kCluster) + kAllPairs));
  write_cluster(folder.path() / "again.toml", pairs, "test");
  for (const Cluster& cluster : {pairs, read_cluster(folder.path() / "again.toml")}) {
    EXPECT_EQ(cluster.collectives.library, CollectiveLibrary::AllPairs);
    EXPECT_EQ(cluster.collectives.reduction, 8.0_GBps);
  }
  EXPECT_THAT(cluster_error(replaced(std::string(kCluster) + kNccl, "\"nccl\"", "\"mpi\"")),
              HasSubstr("collectives.library: \"mpi\" is unknown; allowed are \"nccl\", "));
  EXPECT_THAT(cluster_error(replaced(std::string(kCluster) + kNccl, "\"nccl\"", "\"all-pairs\"")),
              HasSubstr("collectives.base: unknown key"));
  EXPECT_THAT(cluster_error(replaced(std::string(kCluster) + kNccl, "wire = 2", "wire = 0.5")),
              HasSubstr("collectives.ll.wire: is 0.5; allowed are 1 to"));
}

TEST(DeviceFileError, NamesPlaceFindingAndRule) {
  EXPECT_THAT(device_error(replaced(kDevice, "\"80 GB\"", "\"80\"")),
              HasSubstr(":3:20: memory: \"80\" needs a unit, e.g. \"80 GB\""));
  EXPECT_THAT(device_error(replaced(kDevice, "\"80 GB\"", "80")),
              HasSubstr("memory: 80 needs a unit"));
  EXPECT_THAT(device_error(
                  replaced(kDevice, "{ value = \"80 GB\", source = \"data sheet\" }", "\"80 GB\"")),
              HasSubstr("memory: needs a source; write { value = \"80 GB\", source = "));
  EXPECT_THAT(device_error(replaced(kDevice, "source = \"data sheet\"", "source = \"\"")),
              HasSubstr("source: is empty"));
  EXPECT_THAT(device_error(replaced(kDevice, ", source = \"data sheet\" }", " }")),
              HasSubstr("memory.source: is missing"));
  EXPECT_THAT(device_error(replaced(kDevice, "memory =", "memmory =")),
              HasSubstr(":3:11: memory: is missing; is \"memmory\" a typing error?"));
  EXPECT_THAT(device_error(replaced(kDevice, "price =", "prize =")),
              HasSubstr("prize: unknown key; did you mean \"price\"?"));
  EXPECT_THAT(device_error(replaced(kDevice, "value = 0.9", "value = 1.5")),
              HasSubstr("memory_efficiency: is 1.5; allowed are"));
  EXPECT_THAT(device_error(replaced(kDevice, "value = 0.9", "value = nan")),
              HasSubstr("memory_efficiency: is nan; allowed are"));
  EXPECT_THAT(device_error(replaced(kDevice, "\"2 GiB\"", "\"200 GiB\"")),
              HasSubstr("reserved: leaves nothing of the memory"));
  EXPECT_THAT(device_error(replaced(kDevice, "bfloat16", "bfloat17")),
              HasSubstr("peak.bfloat17: unknown key; did you mean \"bfloat16\"?"));
  EXPECT_THAT(device_error(replaced(kDevice, "\"989 TFLOP/s\"", "\"989 TB/s\"")),
              HasSubstr("peak.bfloat16: \"989 TB/s\": \"TB/s\" is no unit of compute rate"));
  EXPECT_THAT(device_error(replaced(kDevice, "operators.normalize", "operators.normalise")),
              HasSubstr("operators.normalise: unknown key; did you mean \"normalize\"?"));
  EXPECT_THAT(device_error(replaced(kDevice, "[\"2 us\", \"6 us\"]", "[\"5 us\", \"6 us\"]")),
              HasSubstr("launch.between: does not contain the value"));
  EXPECT_THAT(device_error(replaced(kDevice, "\"gpu\"", "\"tpu\"")),
              HasSubstr("kind: \"tpu\" is unknown; allowed are \"gpu\", \"cpu\""));
  EXPECT_THAT(device_error(replaced(kDevice, "\"gpu\"", "2024-01-01")),
              HasSubstr("kind: must be a text, found a date"));
  EXPECT_THAT(device_error("name = \"card"), HasSubstr(":1:"));
}

TEST(ClusterFileError, NamesPlaceFindingAndRule) {
  EXPECT_THAT(cluster_error(replaced(kCluster, "count = 16", "count = 0")),
              HasSubstr(":13:9: nodes.count: is 0; allowed are 1 to"));
  EXPECT_THAT(cluster_error(replaced(kCluster, "count = 16", "count = 16.0")),
              HasSubstr("nodes.count: must be an integer, found 16"));
  EXPECT_THAT(cluster_error(replaced(kCluster, "network_cards = 8", "network_cards = 0")),
              HasSubstr("nodes.network_card: unknown key"));
  EXPECT_THAT(cluster_error(replaced(kCluster, "\"fat-tree\"", "\"star\"")),
              HasSubstr("network.nodes_per_leaf: unknown key"));
  EXPECT_THAT(cluster_error(replaced(kCluster, "oversubscription = 2", "oversubscription = 0.5")),
              HasSubstr("network.oversubscription: is 0.5; allowed are 1 to 1000"));
  EXPECT_THAT(cluster_error(replaced(kCluster, "efficiency = 0.9", "efficiency = -1")),
              HasSubstr("network.efficiency: is -1"));
  EXPECT_THAT(cluster_error(replaced(kCluster, "\"card.toml\"", "7")),
              HasSubstr("nodes.device: must be a table, found 7"));
  EXPECT_THAT(cluster_error(replaced(kCluster, "\"400 Gbit/s\"", "\"400 Gbit\"")),
              HasSubstr("nodes.network_card.bandwidth: \"400 Gbit\": \"Gbit\" is no unit"));
  EXPECT_THAT(cluster_error(replaced(kCluster, "source = \"user guide\"\n", "")),
              HasSubstr("nodes.device_link.bandwidth: needs a source"));
  EXPECT_THAT(cluster_error("name = \"pod\"\n"), HasSubstr("nodes: is missing"));
}

TEST(ClusterFileError, NodesNeedANetwork) {
  const std::string no_network =
      "name = \"pod\"\n[network]\nkind = \"none\"\n" +
      std::string(kCluster).substr(std::string(kCluster).find("\n[[nodes]]"));
  EXPECT_THAT(cluster_error(no_network), HasSubstr("cannot join 16 nodes"));
  EXPECT_EQ(cluster_error(replaced(no_network, "count = 16", "count = 1")), "no error");
}

/// kCluster with another network.
std::string joined_by(const std::string& network) {
  const std::string cluster = kCluster;
  return "name = \"pod\"\n\n[network]\nsource = \"user guide\"\nhop_latency = \"0.3 us\"\n"
         "efficiency = 0.9\n" +
         network + cluster.substr(cluster.find("\n[[nodes]]"));
}

const char* const kTorus = R"(kind = "torus"
sides = [4, 2]
nodes_per_switch = 2
link = { bandwidth = "50 GB/s", latency = "1 us" }
)";

const char* const kDragonfly = R"(kind = "dragonfly"
spreading = "hash"
nodes_per_switch = 2
switches_per_group = 4
groups = 2
links_between_groups = 3
local = { bandwidth = "25 GB/s", latency = "1 us" }
global = { bandwidth = "20 GB/s", latency = "2 us" }
)";

const char* const kPods = R"(kind = "fat-tree"
nodes_per_leaf = 4
oversubscription = 2
spreading = "hash"
spines = 3
cores = 2
pods = { leaves = 2, oversubscription = 7 }
)";

const char* const kRail = R"(kind = "rail"
nodes_per_leaf = 4
oversubscription = 2
cross_rail = "within-node"
)";

const char* const kGraph = R"(kind = "graph"
[[network.graph.switch]]
name = "a"
nodes = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]
cards = [[15, 0], [15, 1], [15, 2], [15, 3]]
[[network.graph.switch]]
name = "b"
cards = [[15, 4], [15, 5], [15, 6], [15, 7]]
[[network.graph.link]]
between = ["a", "b"]
count = 2
bandwidth = "100 GB/s"
latency = "1 us"
[[network.graph.link]]
from = "b"
to = "a"
bandwidth = "10 GB/s"
latency = "2 us"
)";

// Written and read back, every family is what it was.
TEST(ClusterFile, EveryNetworkIsReadAndWritten) {
  const TemporaryFolder folder;
  folder.write("card.toml", kDevice);
  for (const char* const network : {kTorus, kDragonfly, kPods, kRail, kGraph}) {
    SCOPED_TRACE(network);
    const Cluster cluster = read_cluster(folder.write("pod.toml", joined_by(network)));
    write_cluster(folder.path() / "first.toml", cluster, "user guide");
    const Cluster again = read_cluster(folder.path() / "first.toml");
    write_cluster(folder.path() / "second.toml", again, "user guide");
    EXPECT_EQ(read_whole_file(folder.path() / "first.toml"),
              read_whole_file(folder.path() / "second.toml"));
    EXPECT_EQ(again.network.kind, cluster.network.kind);
    EXPECT_EQ(again.network.spreading, cluster.network.spreading);
    EXPECT_EQ(again.network.cross_rail, cluster.network.cross_rail);
    EXPECT_EQ(again.network.graph.attached, cluster.network.graph.attached);
  }
  const Network torus = read_cluster(folder.write("pod.toml", joined_by(kTorus))).network;
  EXPECT_EQ(torus.torus.sides, (std::vector<int>{4, 2}));
  EXPECT_EQ(torus.torus.link.bandwidth, 50.0_GBps);
  const Network pods = read_cluster(folder.write("pod.toml", joined_by(kPods))).network;
  EXPECT_EQ(pods.pods->oversubscription, 7);
  EXPECT_EQ(pods.spines->cores, 2);
  const Network graph = read_cluster(folder.write("pod.toml", joined_by(kGraph))).network;
  EXPECT_EQ(graph.graph.attached[15], (std::vector<int>{0, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(graph.graph.wires.size(), 5U);
  EXPECT_EQ(graph.graph.wires.back().from, 1);
}

TEST(ClusterFileError, NetworksMustHoldTheirNodes) {
  const auto error = [](const char* network, const char* from, const char* to) {
    return cluster_error(joined_by(replaced(network, from, to)));
  };
  EXPECT_THAT(error(kTorus, "[4, 2]", "[2, 2]"),
              HasSubstr(":8:9: network.sides: leaves room for 8 nodes; the cluster has 16"));
  EXPECT_THAT(error(kTorus, "sides = [4, 2]", "sides = []"), HasSubstr("network.sides: is empty"));
  EXPECT_THAT(error(kTorus, "sides", "side"), HasSubstr("network.sides: is missing; is \"side\""));
  EXPECT_THAT(error(kDragonfly, "groups = 2", "groups = 1"),
              HasSubstr("network.groups: leaves room for 8 nodes; the cluster has 16"));
  EXPECT_THAT(
      error(kDragonfly, "\"hash\"", "\"random\""),
      HasSubstr("network.spreading: \"random\" is unknown; allowed are \"even\", \"hash\""));
  EXPECT_THAT(error(kPods, "spines = 3\n", ""), HasSubstr("network.spines: is missing"));
  EXPECT_THAT(error(kRail, "within-node", "nowhere"), HasSubstr("allowed are \"spine\""));
}

TEST(ClusterFileError, GraphsPlaceEveryCardOnce) {
  const auto error = [](const char* from, const char* to) {
    return cluster_error(joined_by(replaced(kGraph, from, to)));
  };
  EXPECT_THAT(error("13, 14]", "13]"), HasSubstr("switch: node 14 card 0 is at none of them"));
  EXPECT_THAT(error("[[15, 4], ", "[[15, 3], [15, 4], "),
              HasSubstr(":14:9: network.graph.switch.cards: holds node 15 card 3, which is at "
                        "\"a\" already"));
  EXPECT_THAT(error("[15, 7]]", "[15, 8]]"),
              HasSubstr("holds card 8 of node 15; allowed are 0 to 7"));
  EXPECT_THAT(error("[15, 7]]", "[16]]"), HasSubstr("holds node 16; allowed are 0 to 15"));
  EXPECT_THAT(error("13, 14]", "13, 16]"), HasSubstr("nodes: holds 16; allowed are 0 to 15"));
  EXPECT_THAT(error("[\"a\", \"b\"]", "[\"a\", \"c\"]"),
              HasSubstr("network.graph.link.between: \"c\" is no switch's name"));
  EXPECT_THAT(error("[\"a\", \"b\"]", "[\"a\", \"a\"]"), HasSubstr("names one switch twice"));
  EXPECT_THAT(error("name = \"b\"", "name = \"a\""), HasSubstr("\"a\" is another switch's too"));
  EXPECT_THAT(error("between = [\"a\", \"b\"]\ncount = 2", "from = \"b\"\nto = \"a\""),
              HasSubstr("\"a\" and \"b\" have no way to each other"));
  EXPECT_THAT(cluster_error(joined_by("kind = \"graph\"\ngraph = \"none.toml\"\n")),
              HasSubstr("network.graph: there is no file"));
}

TEST(ClusterFileError, GraphsOfTheirOwnFileNameIt) {
  const TemporaryFolder folder;
  folder.write("card.toml", kDevice);
  const auto graph =
      folder.write("fabric.toml", "source = \"cabling plan\"\n[[switch]]\nname = 3\n");
  const auto file =
      folder.write("pod.toml", joined_by("kind = \"graph\"\ngraph = \"fabric.toml\"\n"));
  try {
    read_cluster(file);
    FAIL() << "a switch called 3";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr(graph.string() + ":3:8: switch.name: must be a text"));
  }
}

// 40 of 16 · 8 devices are five nodes; 4 are half of one, with half of its cores and cards.
TEST(ClusterFile, MayBeAPartOfAnother) {
  const TemporaryFolder folder;
  folder.write("card.toml", kDevice);
  folder.write("pod.toml", kCluster);
  write_cluster_part(folder.path() / "five.toml", "five", "pod.toml", 40);
  const Cluster five = read_cluster(folder.path() / "five.toml");
  EXPECT_EQ(five.name, "five");
  EXPECT_EQ(five.nodes(), 5);
  EXPECT_EQ(five.network.kind, NetworkKind::FatTree);
  EXPECT_EQ(five.groups.front().type.device.name, "card");
  write_cluster_part(folder.path() / "half.toml", "half", "five.toml", 4);
  const Cluster half = read_cluster(folder.path() / "half.toml");
  EXPECT_EQ(half.nodes(), 1);
  EXPECT_EQ(half.groups.front().type.cores, 56);
  EXPECT_EQ(half.groups.front().type.network_cards, 4);
  EXPECT_EQ(half.network.kind, NetworkKind::None);
}

TEST(ClusterFileError, APartIsNodesOrAPartOfOne) {
  const TemporaryFolder folder;
  folder.write("card.toml", kDevice);
  folder.write("pod.toml", kCluster);
  const auto error = [&](const std::string& whole, int devices) -> std::string {
    const auto file = folder.path() / "part.toml";
    write_cluster_part(file, "part", whole, devices);
    try {
      read_cluster(file);
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_THAT(error("pod.toml", 12),
              HasSubstr("part.toml:3:11: devices: 12 of \"pod\" are neither whole "
                        "nodes nor a part of one, whose nodes have 8"));
  EXPECT_THAT(error("pod.toml", 136), HasSubstr("devices: 136 of \"pod\", which has 128"));
  EXPECT_THAT(error("part.toml", 8),
              HasSubstr("part_of: is a part of a part more than 8 files deep, or of itself"));
  EXPECT_THAT(error("none.toml", 8), HasSubstr("part.toml:2:11: part_of: there is no file"));
}

TEST(ClusterFile, MissingDeviceFileIsNamed) {
  const TemporaryFolder folder;
  const auto file = folder.write("pod.toml", kCluster);
  EXPECT_THROW(read_cluster(file), ConfigError);
}

}  // namespace
}  // namespace orrery::core
