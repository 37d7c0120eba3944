#pragma once
// The order in which one pipeline stage works on its microbatches.
//
// GPipe, 3 microbatches:        F0 F1 F2 B2 B1 B0
// 1F1B, stage s of p:           min(p−1−s, m) forwards, then one forward and one backward in turn,
//                               then the remaining backwards. At most min(p−s, m) are in flight.
// Both leave (p−1)/(m+p−1) of a uniform step idle.
// Source: Huang et al., GPipe, NeurIPS 2019; Narayanan et al., PipeDream-Flush, ICML 2021.

#include <vector>

#include "core/plan.h"

namespace orrery::core {

struct StagePass {
  bool forward = true;
  int microbatch = 0;
};

/// @param stages  p ≥ 1; @param stage  0 .. p−1; @param microbatches  m ≥ 1.
/// Only GPipe and OneFOneB.
std::vector<StagePass> stage_passes(PipelineSchedule, int stages, int stage, int microbatches);

/// Microbatches whose activations one stage holds at once, at most.
int microbatches_in_flight(PipelineSchedule, int stages, int stage, int microbatches);

}  // namespace orrery::core
