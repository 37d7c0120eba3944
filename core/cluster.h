#pragma once
// The machines a plan runs on: devices, nodes and the network between them, as the TOML files in
// configs/ describe them. core/network/topology.h turns a Cluster into a graph of links with
// routes.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/collective_library.h"
#include "core/interconnect.h"
#include "core/model.h"
#include "core/units.h"

namespace orrery::core {

enum class DeviceKind { Cpu, Gpu };

/// A GPU's product is cut into tiles, each computed by one of its multiprocessors; the last wave of
/// tiles leaves some of them idle.
struct GemmTiles {
  int processors = 1;   ///< Multiprocessors.
  double medium = 1.0;  ///< Share of the ceiling that tiles of 128 x 128 reach, 256 x 128 being 1.
  double small = 1.0;   ///< And tiles of 64 x 64.
};

/// Share of the peak that a matrix product of m x n x k reaches:
/// ceiling · m/(m+half_m) · n/(n+half_n) · k/(k+half_k) [· the best of GemmTiles].
/// Source: a saturating rational per dimension; few parameters, fitted per device.
struct GemmEfficiency {
  double ceiling = 1.0;
  double half_m = 0.0;
  double half_n = 0.0;
  double half_k = 0.0;
  std::optional<GemmTiles> tiles = {};
};

/// Share of the matrix-product peak that fused attention reaches on the work it does (a causal
/// mask's upper half is not counted): ceiling · rows/(rows + half_rows), rows = sequences ·
/// sequence · heads.
struct AttentionEfficiency {
  double forward = 1.0;   ///< Ceiling of the forward pass.
  double backward = 1.0;  ///< Ceiling of the backward pass.
  double half_rows = 0.0;
};

/// Measured cost of one kind of operator that is not a matrix product:
/// time = per_call + bytes / rate, with bytes the operator's memory traffic (Work::memory).
struct OperatorRate {
  Seconds per_call;
  BytesPerSecond rate;
};

/// One GPU, or one rank's share of a CPU socket.
struct Device {
  std::string name;
  DeviceKind kind = DeviceKind::Gpu;
  Bytes memory;
  BytesPerSecond memory_bandwidth;
  double memory_efficiency = 1.0;  ///< Share of memory_bandwidth that streaming kernels reach.
  std::map<DType, FlopsPerSecond> peak;  ///< Dense matrix-product peak by precision.
  GemmEfficiency gemm;
  std::optional<AttentionEfficiency> attention;  ///< Not measured: costmodel/compute_cost.h.
  /// CPU: time to call one operator. GPU: the host's time to issue one kernel.
  Seconds launch;
  Seconds gap;  ///< GPU: between two kernels of a stream that the host has issued ahead.
  /// GPU: how many times as long computing takes while collectives run (core/interference.h).
  double beside_communication = 1.0;
  Bytes reserved;  ///< Memory taken by framework, context and libraries.
  std::map<std::string, OperatorRate> operators;  ///< By operator name (core/operator.h); optional.
  std::optional<double> price_per_hour;           ///< US dollars.
  std::optional<double> power_watts;
};

enum class NodeFabric {
  Switch,    ///< NVSwitch: every device has its own port at `bandwidth`.
  CubeMesh,  ///< DGX-1V hybrid cube mesh; `bandwidth` is a device's total over its links.
  PcieTree,  ///< Devices share the host bridge.
  Memory     ///< CPU ranks of one host exchanging through shared memory.
};

struct NodeType {
  std::string name;
  Device device;
  int devices = 0;  ///< Devices (ranks) per node.
  int cores = 0;    ///< CPU cores that the node's ranks share.
  NodeFabric fabric = NodeFabric::Switch;
  LinkCost device_link;  ///< One device's port to the fabric, each direction.
  /// PcieTree: behind one PCIe switch, whose way to the host they share. Absent: all are behind one.
  std::optional<int> devices_per_switch = {};
  int network_cards = 0;  ///< Shared evenly by the devices. 0 only in a cluster of one node.
  LinkCost network_card;  ///< One card, each direction.
  Bytes host_memory;
};

struct NodeGroup {
  NodeType type;
  int count = 0;
};

/// Ranks are numbered node by node in the order of `groups`, device by device within a node.
struct Cluster {
  std::string name;
  std::vector<NodeGroup> groups;
  Network network;
  Collectives collectives{};

  int nodes() const;
  int devices() const;
  const NodeType& node_type(int node) const;  ///< Of the node with this index.
  int node_of(int rank) const;                ///< The node that hosts this rank.
};

/// The first `devices` of a cluster: whole nodes, or a part of one with its share of cores and cards.
/// Empty where that number is neither.
std::optional<Cluster> try_part_of(const Cluster&, int devices);

/// The same for a number that is one of the two.
Cluster part_of(const Cluster&, int devices);

}  // namespace orrery::core
