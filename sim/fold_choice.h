#pragma once
// Which ranks a simulation plays, by its options.

#include "core/cluster.h"
#include "core/program.h"
#include "sim/fold.h"
#include "sim/networks.h"
#include "sim/simulate.h"

namespace orrery::sim {

/// Every rank unless SimulateOptions::folded. Else by levels on an undisturbed network that is made of
/// them alone (sim/fold.h), and by what the links carry on others (sim/symmetry.h). Every rank again
/// where neither has a choice of ranks.
Fold fold_for(const core::Program&, const core::Cluster&, const Networks&, const SimulateOptions&);

}  // namespace orrery::sim
