#pragma once
// A Program that does nothing but communicate, and what its trace says of the links. Each size in
// turn: an all-reduce, a reduce-scatter and an all-gather of all ranks, then a message from every
// even rank to the odd one after it, and back.

#include <cstdint>
#include <optional>
#include <vector>

#include "core/cluster.h"
#include "core/program.h"
#include "core/trace.h"

namespace orrery::study {

/// @param ranks   Even.
/// @param counts  Float32 elements of each buffer; multiples of `ranks`.
core::Program fabric_probe(int ranks, const std::vector<std::int64_t>& counts);

/// One communication as it was measured: from the moment its last party had started to the end at
/// its last party.
struct FabricSample {
  std::optional<core::CollectiveKind> collective;  ///< Absent: a message.
  core::Bytes bytes;
  core::Seconds duration;
};

/// By instruction of the probe, the lower quartile over steps after the first.
std::vector<FabricSample> fabric_samples(const core::Program& probe, const core::Trace&);

/// What carries data between the ranks of a node.
struct FabricFit {
  core::LinkCost link;
  /// Absent where adding up takes no time that the samples show.
  std::optional<core::BytesPerSecond> reduction;
};

/// α, β and the reduction's rate that tell the samples best: least squares of the relative error
/// with none of them negative. Each time is that of the engine's algorithm as
/// core/network/collective_algorithm.h has it, A·α + B/β + C/reduction.
/// @param cluster  One node whose ranks are the probe's, whose library is AllPairs. What is fitted
///                 does not matter in it.
/// @param samples  At least three, of different sizes.
FabricFit fit_fabric(core::Cluster cluster, const std::vector<FabricSample>& samples);

}  // namespace orrery::study
