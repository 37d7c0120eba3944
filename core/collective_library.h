#pragma once
// What carries out a cluster's collectives, and what that costs beside the links. Which algorithm a
// library takes for a collective: core/network/collective_choice.h; the algorithms themselves:
// core/network/collective_algorithm.h.
//
// NCCL moves blocks from rank to rank in one of three protocols. With n ranks and S bytes a ring or
// tree takes
//   T = base + steps · α · step + wire · bytes / β
// where α and β are a link's (Cluster), `steps` and `bytes` the algorithm's, and `step` and `wire`
// the protocol's: LL sends 4 bytes of data with 4 bytes of flag and waits for nothing, LL128 120
// with 8, Simple data alone but a fence with each block.
// Source: NCCL (2026), src/graph/tuning.cc, src/device/prims_ll.h, prims_ll128.h.

#include <optional>

#include "core/units.h"

namespace orrery::core {

enum class CollectiveLibrary {
  Nccl,     ///< Rings, trees and the switch's own sums, whichever is fastest.
  AllPairs  ///< Every pair of ranks at once: what the engine does on CPUs (engine/collective.h).
};

enum class Protocol { Simple, LL128, LL };

/// Of a protocol, relative to Simple on the same links.
struct ProtocolCost {
  double step = 1.0;          ///< α of a step within a node / that of Simple (device_link).
  double network_step = 1.0;  ///< α of a step between nodes / that of Simple.
  double wire = 1.0;          ///< Bytes on a link per byte of the buffer.
};

/// Sums made by the switch of a node (NVLS: NVLink SHARP), Hopper and later.
struct InSwitchCost {
  Seconds latency;    ///< Of one all-reduce, after `base`.
  double wire = 1.0;  ///< Bytes on a port per byte that the algorithm moves.
};

struct Collectives {
  CollectiveLibrary library = CollectiveLibrary::Nccl;

  // NCCL.
  Seconds base;                           ///< Once per collective: its kernel's start and end.
  std::optional<ProtocolCost> ll128, ll;  ///< Without them every step is Simple.
  /// The first and the last block of a pass over a ring overlap with nothing: as if each rank sent
  /// so many blocks of S/n more.
  double ring_ends = 0.0;
  /// Bytes on a link per byte of a tree, which then counts with two edges in a chain and four a node
  /// from three nodes on, as NCCL counts. Without it: 1, and the edges that there are.
  std::optional<double> tree_wire;
  std::optional<InSwitchCost> in_switch;

  // All pairs.
  /// Bytes of inputs that one rank adds up per second, after they have come.
  std::optional<BytesPerSecond> reduction;
};

}  // namespace orrery::core
