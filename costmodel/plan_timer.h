#pragma once
// Times plans one after another, for a search: what a plan has in common with the ones before it is
// not worked out again. Each answer is DenseEstimator's, to the last bit.
//
// Plans come in the order of costmodel/plan_space.h, in which the ways to share among data ways change
// fastest. What else a plan says is its outline, and of each outline is kept
//
//   memory    of its passes, by PassSharing: mostly for all plans that share in one stage of ZeRO
//   passes    by how data ways share, for all plans of up to stage 1 together; only for plans that fit
//   steps     by how data ways share; for all outlines that differ in the microbatch, recomputation, the
//             schedule or its chunks. Of plans that do not fit only what lives throughout
//   pipeline  of passes, by the routes between stages and by what begins a step
//
// so a plan costs a few comparisons and additions, and the end of its step.

#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "core/plan.h"
#include "core/units.h"
#include "costmodel/dense_estimator.h"

namespace orrery::costmodel {

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
  /// What is kept by how data ways share; few enough to be looked for one by one.
  template <class Value>
  class BySharing {
   public:
    template <class Make>
    Value& of(const PassSharing& sharing, Make make) {
      for (auto& [known, value] : entries_) {
        if (known == sharing) return value;
      }
      return entries_.emplace_back(sharing, make()).second;
    }

   private:
    std::deque<std::pair<PassSharing, Value>> entries_;  ///< Stay where they are.
  };

  struct Memory {
    PlanMemory of_passes;
    std::vector<core::Bytes> least_peak;  ///< By kind of stage.
    std::vector<core::Bytes> peak;        ///< Likewise; empty until it is asked for.
  };
  struct Passes {
    PlanPasses passes;
    std::vector<std::pair<int, PlanFinish>> finish;  ///< By Steps::before_end.
    PlanFinish* finish_of(int before_end);
  };
  struct Steps {
    std::vector<core::Bytes> persistent;   ///< By kind of stage.
    PlanSteps steps;                       ///< This and all below only where it is asked for.
    std::vector<core::Seconds> computing;  ///< By kind of stage: before and after the passes.
    int before_end = 0;                    ///< Equal for steps alike in all but their end.
  };
  /// What plans have in common that differ in how data ways share alone.
  struct Outline {
    BySharing<Memory> memory;
    BySharing<Passes> passes;
    BySharing<Steps>* steps = nullptr;
  };
  using BeforeEnd = std::pair<std::vector<MessageRoute>, std::vector<core::Seconds>>;

  BySharing<Steps>& steps_alike(const core::DensePlan&);
  Memory& pass_memory();
  Passes& passes();
  Steps& steps();
  /// Of the stage that holds most, throughout and in its passes.
  core::Bytes most_with(const std::vector<core::Bytes>& of_passes) const;

  const DenseEstimator& estimator_;
  std::deque<Outline> outlines_;
  std::map<core::DensePlan, BySharing<Steps>> steps_;
  std::map<BeforeEnd, int> before_end_;
  PipelineGraphs graphs_;
  core::DensePlan plan_;
  core::DensePlan outline_plan_;  ///< Whose outline is the last of outlines_.
  core::DensePlan key_;           ///< What is being looked up; keeps its memory.
  Memory* memory_now_ = nullptr;
  Passes* passes_now_ = nullptr;
  Steps* steps_now_ = nullptr;
};

}  // namespace orrery::costmodel
