#pragma once
// The end of a step: the stages' last blocks on their streams, from the stages' last backward passes
// on.
//
// A stage's compute stream is free when its last pass ends; its other streams before that, so that
// gradients are reduced beside the pass that completes them. Collectives of groups across stages
// start when every stage has come to them. Only one stage of each kind is followed, the one whose
// passes end last: all of it is (max,+) linear, so the others are never later.

#include <vector>

#include "core/program.h"
#include "core/units.h"
#include "costmodel/stage_profile.h"
#include "costmodel/step_profile.h"

namespace orrery::costmodel {

/// A chunk of layers whose passes are timed.
struct EndingChunk {
  const GradientTimes* gradients = nullptr;
  int layers = 0;
  core::Seconds finish;     ///< Of its last pass.
  core::Seconds last_pass;  ///< How long that takes.
};

struct EndingStage {
  const StepProfile* step = nullptr;
  StagePlace ends;
  /// Gradients are summed within the passes, whose end the data stream reaches no sooner.
  bool reduces_in_passes = false;
  std::vector<EndingChunk> chunks;  ///< In model order.
  double beside = 1.0;              ///< Device::beside_communication.
  /// Gradients reduced beside last passes make them longer: this stage's by `own` in the last `span`,
  /// which it ends `delay` later than its chunks say.
  core::Seconds own, span, delay;

  core::Seconds finish() const;  ///< Of its last pass.
  /// When the part's gradients are complete.
  core::Seconds complete(StagePart, double slowdown) const;
};

/// What comes after the last pass.
struct EndOfStep {
  core::Seconds end;        ///< When the last stage is done.
  core::Seconds computing;  ///< Of that stage's last block, the compute stream.
  /// By how much all of it is later because computing takes longer beside communication.
  core::Seconds interference;
};

/// Sets own and span of a stage that nothing delays:
///
///   own = min((f − 1) · o, (1 − 1/f) · r, (f − 1) · last passes),   f = beside,
///
/// o being how long reductions would run beside passes that took no longer for it, r how long all take
/// that begin before the stage's last pass ends.
void set_interference(EndingStage&, double slowdown);

/// @param slowdown  Of compute instructions and passes: ranks that share a core.
EndOfStep end_of_step(const std::vector<EndingStage>&, double slowdown);

}  // namespace orrery::costmodel
