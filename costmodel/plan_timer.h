#pragma once
// Times plans one after another, for a search: what a plan has in common with the ones before it is
// not worked out again. Each answer is DenseEstimator's, to the last bit.
//
//   passes    depend on all but the ends of a step: data and sharding ways (up to stage 1) only
//             count together
//   steps     depend on neither the microbatch nor recomputation nor the schedule; of plans that do not
//             fit only what lives throughout is worked out
//   pipeline  depends on the passes, on the routes between stages and on what begins a step
//
// and a plan is one entry of each: two look-ups, a few additions for its memory and its lower bound,
// and the end of its step.

#include <cstddef>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/plan.h"
#include "core/units.h"
#include "costmodel/dense_estimator.h"

namespace orrery::costmodel {

struct PlanHash {
  std::size_t operator()(const core::DensePlan&) const noexcept;
};

/// For one thread.
class PlanTimer {
  struct Passes;
  struct Steps;

 public:
  explicit PlanTimer(const DenseEstimator& estimator) : estimator_(estimator) {}

  /// Turns to a valid plan, which the functions below are about.
  void turn_to(const core::DensePlan&);

  // No more than memory(), and sooner known; the latter counts one microbatch's passes too.
  core::Bytes persistent() const;
  core::Bytes least_memory();
  core::Bytes memory();  ///< Of the fullest stage, Device::reserved included.
  /// No more than step(): the passes, and what the compute stream does before and after them.
  core::Seconds lower_bound();
  core::Seconds step();

  /// A plan that was turned to. Good until forget_many().
  struct Kept {
    Passes* passes = nullptr;
    Steps* steps = nullptr;
  };
  Kept keep() { return {&passes(), &steps()}; }
  /// Works out the pipelines of all of them: sooner than one by one, where neighbours have one shape.
  void finish(const std::vector<Kept>&);
  core::Seconds step(const Kept&);

  /// Lets go of what earlier plans had in common, if that is some thousands of entries.
  void forget_many();

 private:
  struct Passes {
    PlanPasses passes;
    std::vector<core::Bytes> least_peak;             ///< By kind of stage.
    std::vector<core::Bytes> peak;                   ///< Likewise; empty until it is asked for.
    std::vector<std::pair<int, PlanFinish>> finish;  ///< By Steps::before_end.
    const PlanFinish* finish_of(int before_end) const;
  };
  struct Steps {
    std::vector<core::Bytes> persistent;   ///< By kind of stage.
    PlanSteps steps;                       ///< This and all below only where it is asked for.
    std::vector<core::Seconds> computing;  ///< By kind of stage: before and after the passes.
    int before_end = 0;                    ///< Equal for steps alike in all but their end.
  };
  using BeforeEnd = std::pair<std::vector<MessageRoute>, std::vector<core::Seconds>>;

  Passes& passes();
  Steps& persistent_of(const core::DensePlan&);
  Steps& steps();
  /// Of the stage that holds most, throughout and in its passes.
  core::Bytes most_with(const std::vector<core::Bytes>& of_passes) const;

  const DenseEstimator& estimator_;
  std::unordered_map<core::DensePlan, Passes, PlanHash> passes_;
  std::unordered_map<core::DensePlan, Steps, PlanHash> steps_;
  std::map<BeforeEnd, int> before_end_;
  PipelineGraphs graphs_;
  core::DensePlan key_;  ///< What is being looked up; keeps its memory.
  core::DensePlan plan_;
  Passes* passes_now_ = nullptr;
  Steps* steps_now_ = nullptr;
};

}  // namespace orrery::costmodel
