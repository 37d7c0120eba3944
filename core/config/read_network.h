#pragma once
// The network of a cluster file ([network]), and the limits of what a cluster may be.

#include <cstdint>
#include <filesystem>
#include <vector>

#include "core/cluster.h"
#include "core/config/table_reader.h"

namespace orrery::core {

// The largest published clusters have some 10^5 accelerators; the time of a search and the memory
// of a topology grow with them.
inline constexpr int kMaxNodes = 250'000;
inline constexpr int kMaxPerNode = 4096;
inline constexpr std::int64_t kMaxDevices = 250'000;

LinkCost read_link(TableReader);

/// @param file  The cluster's, beside which a graph's file lies.
/// @param groups  Every card of theirs must have its place in the network.
Network read_network(TableReader, const std::filesystem::path& file,
                     const std::vector<NodeGroup>& groups);

}  // namespace orrery::core
