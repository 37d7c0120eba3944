#pragma once
// From measured collectives to what a fabric and its library cost. bench/fit_collectives uses it for
// NCCL; on CPUs study/fabric_probe.h measures the engine's own library.

#include <vector>

#include "core/program.h"
#include "core/units.h"
#include "costmodel/collective_cost.h"

namespace orrery::costmodel {

/// One collective, alone on its nodes.
struct CollectiveSample {
  core::CollectiveKind kind = core::CollectiveKind::AllReduce;
  core::Bytes bytes;  ///< Collective::bytes.
  GroupPlacement where;
  bool in_switch = true;  ///< False where sums in the switch were turned off.
  core::Seconds time;
};

/// What a fit may change of a FabricCost.
enum class FabricParameter {
  Port,
  Inside,
  Card,
  Across,
  Base,
  RingEnds,
  LLWire,
  InSwitchLatency,
  InSwitchWire
};

/// Time by the method that the library takes.
core::Seconds predicted(const FabricCost&, const CollectiveSample&);

/// Changes `free` so that Σ (ln predicted − ln measured)² is least; all stay positive. The sum has
/// kinks where the library's method changes, and so minima of its own between them: the best of
/// the searches that begin at `start` and with one of `free` at half or twice of it.
/// @param start    Positive in each of `free`.
/// @param samples  At least as many as parameters.
FabricCost fit_collectives(const FabricCost& start, const std::vector<FabricParameter>& free,
                           const std::vector<CollectiveSample>& samples);

/// How far predictions lie from samples.
struct CollectiveErrors {
  double mean = 0;     ///< Of |predicted / measured − 1|.
  double bias = 0;     ///< Of predicted / measured − 1.
  double largest = 0;  ///< In size.
};
/// @param samples  At least one.
CollectiveErrors errors_of(const FabricCost&, const std::vector<CollectiveSample>& samples);

}  // namespace orrery::costmodel
