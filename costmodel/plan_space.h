#pragma once
// The plans that a search looks at, one after another.
//
//   tensor      divides heads, key-value heads, feed-forward width and devices
//   pipeline    divides the rest; layers even, or levelled by their times
//   expert      of models with experts: divides them and the data ways; experts over tensor ranks, whole
//               or in parts
//   context     1; or what is asked for, by both methods
//   microbatch  divides the sequences of a data way
//   sequence    parallel or not
//   recompute   none, full, or in full the first 1, 2, ... layers of each stage (of one chunk); selective
//               where asked for: flash attention gains nothing by it. What is asked for is of all layers
//   schedule    1F1B, GPipe, ZB-H1; interleaved with each number of chunks that divides the layers of
//               a stage; ZB-1p and ZB-2p, computed from the plan's own durations, for up to 16 stages
//               and two microbatches per stage (more have little to gain), or where asked for
//   sharding    none, or each divisor of the data ways (experts aside) in ZeRO stages 1, 2 and 3
//
//   axes        tensor, context, expert, sharding, pipeline, data from neighbouring ranks outwards; on a cluster of
//               unequal devices also with the pipeline outermost, so that each stage lies on one kind
//
// Of these the plans that core::why_invalid allows.

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "core/cluster.h"
#include "core/job.h"
#include "core/model.h"
#include "core/plan.h"

namespace orrery::costmodel {

class DenseEstimator;

/// What a plan must be like.
struct PlanConditions {
  std::optional<int> data, sharding, sharding_stage, tensor, pipeline, context, expert,
      expert_tensor, virtual_stages, microbatch;
  double expert_capacity = core::DensePlan{}.expert_capacity;
  std::optional<bool> sequence_parallel;
  std::optional<core::PipelineSchedule> schedule;
  std::optional<core::Recompute> recompute;
};

/// The plan of even layers that has what is asked for, and data parallelism where nothing is.
core::DensePlan plainest_plan(const core::Transformer&, int devices, const PlanConditions&);

/// Plans that share the degrees which are costly to change.
struct PlanCorner {
  int tensor = 1, pipeline = 1, context = 1, expert = 1, microbatch = 1;
  int data_ways = 1;                ///< Expert ranks aside.
  bool pipeline_outermost = false;  ///< Stages lie one after the other over the nodes.
};

class DensePlanSpace {
 public:
  /// @param estimator  Of the same model, cluster and job: it levels the layers of stages.
  DensePlanSpace(const core::Model&, const core::Cluster&, const core::Job&, const DenseEstimator&,
                 const PlanConditions&);

  /// In the order of the search.
  std::vector<PlanCorner> corners() const;
  /// Every valid plan of a corner, in order: schedule by schedule, as what plans cost is best worked
  /// out. `visit` gets the same object each time, changed, and says whether the plan fits: where one
  /// of which some layers recompute does not, those are left out of which fewer do, as they need more.
  using Visit = std::function<bool(const core::DensePlan&)>;
  void visit(const PlanCorner&, const Visit& visit) const;

 private:
  /// What a plan does within its stages, whatever its schedule.
  struct Within {
    core::ContextMethod context_method;
    bool sequence_parallel;
    int expert_tensor;
    core::Recompute recompute;
  };
  std::vector<Within> ways_within(core::DensePlan) const;
  std::vector<int> expert_tensors(int tensor) const;
  void add_recomputes(core::DensePlan, std::vector<Within>&) const;
  void visit_ways(core::DensePlan&, const std::vector<Within>&, const Visit&) const;
  void visit_layers(core::DensePlan&, const Visit&) const;
  void visit_recomputing(core::DensePlan&, const Visit&) const;
  /// How data ways share.
  struct Sharing {
    int data, sharding, stage;
  };
  /// Of all that is valid.
  std::vector<Sharing> visit_sharding(core::DensePlan&, const Visit&) const;
  bool valid(const core::DensePlan&) const;
  /// Gives the durations to a schedule that is computed from them. False where the plan is not valid,
  /// whatever they are.
  bool complete(core::DensePlan&) const;
  bool worth_computing(const core::DensePlan&) const;

  const core::Model& model_;
  const core::Job& job_;
  const DenseEstimator& estimator_;
  PlanConditions conditions_;
  int devices_;
};

/// All valid dense plans, in the order of the search.
std::vector<core::Plan> dense_plans(const core::Model&, const core::Cluster&, const core::Job&);

/// All valid plans with a parameter server: how many of the cluster's ranks serve, whether servers
/// also work, one to four slices.
std::vector<core::Plan> sparse_plans(const core::Model&, const core::Cluster&, const core::Job&);

}  // namespace orrery::costmodel
