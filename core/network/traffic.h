#pragma once
// What a step of a program moves, counted in its instructions: how much each rank sends, within its
// node and to others.

#include <array>
#include <vector>

#include "core/network/topology.h"
#include "core/program.h"
#include "core/trace.h"
#include "core/units.h"

namespace orrery::core {

/// What one rank sends in one step, by what for (span_kind()).
struct Traffic {
  std::array<Bytes, kSpanKinds> within_node{}, between_nodes{};

  Traffic& operator+=(const Traffic&);
  Traffic& operator*=(double);
};

/// Sum over all kinds.
Bytes total(const std::array<Bytes, kSpanKinds>&);

/// Of each rank. Collectives send what the algorithm that the cluster's library takes for them sends
/// (core/network/collective_algorithm.h): in rings 2·(n−1)/n of an all-reduce's bytes. Messages to
/// and from parameter servers, whose sizes only a run knows, are not counted.
std::vector<Traffic> step_traffic(const Program&, const Topology&);

/// Of a rank on average.
Traffic mean_traffic(const Program&, const Topology&);

}  // namespace orrery::core
