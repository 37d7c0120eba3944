#pragma once
// Zero-bubble schedules that are computed from durations: ZB-1p and ZB-2p.
//
// Every stage runs, whenever it is free, the first of these that it can:
//   B   if its gradient is there;
//   F   if its activation is there, memory allows it, and the stage has fewer than k microbatches
//       between F and B: as many as fit before its first gradient arrives;
//   W   if it ends before the next B or F could start, or for memory;
// else it waits. What is left to choose (k rounded up or down, k reduced by the weight gradients
// that the stage will need at the end of the step, whether a W may delay what comes next) is tried in
// all combinations, and the schedule whose busiest stage is done soonest is taken; ZB-H1 is one of
// the candidates, so ZB-1p is never worse.
//
// Memory is counted in microbatches: one from F to B, PassTimes::kept from B to W, at most `limit` on
// any stage. A stage idles in the end unless it has (s·(F+B) + W) / W weight gradients left when its
// last B is done, s stages before it: with kept = 1 and W shorter than F and B, 2p is not enough for
// no bubble at all.
//
// The result depends on its arguments alone.
// Source: Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024, section 3 (the published
// heuristic; this one has other choices, and is held to its published results by a test).

#include <vector>

#include "core/lowering/pipeline_schedule.h"
#include "core/plan.h"

namespace orrery::core {

/// By stage, in order.
/// @param limit  Microbatches of memory, at least `stages`.
std::vector<std::vector<StagePass>> zero_bubble_passes(int stages, int microbatches,
                                                       const PassTimes&, int limit);

}  // namespace orrery::core
