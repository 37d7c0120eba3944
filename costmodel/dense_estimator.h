#pragma once
// Estimates many dense plans of one model, cluster and job: what plans have in common (a stage's
// profile, its parameters) is worked out once.
//
//   step = pipeline, from the zeroing of gradients on (costmodel/pipeline_cost.h) + end of step
//
// The end of the step follows core/lowering/decoder_step.cpp: buckets are reduced in backward order
// beside the last backward pass, then the norm, the updates, and the gathering of the parameters.

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "costmodel/collective_cost.h"
#include "costmodel/estimate.h"
#include "costmodel/pipeline_cost.h"
#include "costmodel/stage_profile.h"

namespace orrery::costmodel {

/// Elements of a stage's parameter buckets; 0 where the stage has none.
struct StageBuckets {
  std::int64_t embedding = 0, layer = 0, head = 0;
  std::int64_t tied = 0;  ///< Of the token embedding that another stage holds too.
  std::int64_t elements(int layers) const { return embedding + layer * layers + head; }
};

/// A group of ranks, as its collectives cost.
struct GroupCost {
  GroupPlacement alone, shared;
};

/// Safe to use from several threads; every answer depends on its plan alone. On a cluster of
/// unequal nodes all devices count as the slowest, with the least memory.
class DenseEstimator {
 public:
  DenseEstimator(const core::Model&, const core::Cluster&, const core::Job&);

  /// All functions take valid plans (core::why_invalid). This one times a plan whether it fits or
  /// not.
  Estimate estimate(const core::DensePlan&) const;

  /// Why the plan's fullest stage does not fit its device's memory; absent where it does.
  std::optional<Infeasible> does_not_fit(const core::DensePlan&) const;

  /// The stage whose devices need most, Device::reserved included.
  struct Fullest {
    int stage = 0;
    MemoryByTerm memory{};
  };
  Fullest fullest(const core::DensePlan&) const;

  /// No more than the estimate's step, at a fraction of its cost: the passes alone, without
  /// messages and without the end of the step.
  core::Seconds lower_bound(const core::DensePlan&) const;

  /// Layers per stage that level the stages' passes, the first one's embedding and the last one's
  /// head included.
  std::vector<int> balanced_layers(const core::DensePlan&) const;

  const core::Device& device() const { return device_; }

 private:
  struct Groups {
    GroupCost tensor, data, sharding, model, world, tied;
  };
  /// The stages of one plan on the time axis. Chunks are those of the whole model, in its order.
  struct Stages {
    std::vector<const StageProfile*> profile;  ///< By chunk.
    std::vector<StageBuckets> buckets;         ///< By stage.
    PipelineStages pipeline;
    std::vector<core::Seconds> finish;        ///< By chunk: end of its last backward pass.
    std::vector<core::Seconds> stage_finish;  ///< By stage: end of its last pass.
    core::Seconds pipeline_time() const {
      return *std::max_element(stage_finish.begin(), stage_finish.end());
    }
  };
  /// Times of one bucket at the end of a step.
  struct BucketTimes {
    core::Seconds scatter, reduce, gather;  ///< Collectives.
    core::Seconds norm, update;             ///< On the compute stream.
  };
  struct StageBucketTimes {
    BucketTimes embedding, layer, head;
  };
  /// What comes after the last backward pass of stage 0.
  struct EndOfStep {
    core::Seconds all, optimizer;
  };

  GroupCost group_cost(const core::DensePlan&, const std::vector<core::Axis>&) const;
  Groups groups_of(const core::DensePlan&) const;
  const StageProfile& profile(const core::DensePlan&, int chunk, const GroupCost& tensor) const;
  std::vector<PassMoment> moments(const core::DensePlan&, int stage) const;
  MemoryByTerm memory_of(const core::DensePlan&, int stage, const GroupCost& tensor) const;
  StageBuckets buckets(const core::DensePlan&, int stage) const;
  core::Seconds message_time_between(const core::DensePlan&, int stage, core::Bytes) const;
  core::Seconds passes_of_stage(const core::DensePlan&, const Stages&, int stage) const;
  Stages passes_of(const core::DensePlan&, const GroupCost& tensor) const;
  Stages stages_of(const core::DensePlan&, const Groups&) const;
  core::Seconds collective(core::CollectiveKind, double bytes, const GroupCost&) const;
  core::Seconds compute(const core::Operator&) const;
  core::Seconds begin_time(std::int64_t elements) const;
  BucketTimes bucket_times(const core::DensePlan&, const Groups&, std::int64_t elements) const;
  std::vector<StageBucketTimes> all_bucket_times(const core::DensePlan&, const Groups&,
                                                 const Stages&) const;
  std::vector<core::Seconds> gradients_ready(const core::DensePlan&, const Groups&, const Stages&,
                                             const std::vector<StageBucketTimes>&) const;
  EndOfStep end_of_step(const core::DensePlan&, const Groups&, const Stages&) const;
  Estimate add_up(const core::DensePlan&, const Stages&, const EndOfStep&) const;

  const core::Transformer model_;
  const core::Cluster& cluster_;
  const core::Job& job_;
  core::Device device_;
  double ranks_per_core_ = 1.0;  ///< CPU ranks that share one core; 1 where each has its own.
  FabricCost fabric_;

  using BucketKey = std::tuple<bool, bool, int, int>;
  mutable std::mutex mutex_;
  mutable std::map<StageQuestion, StageProfile> profiles_;
  mutable std::map<BucketKey, StageBuckets> buckets_;
  mutable std::map<std::pair<core::PipelineShape, int>, std::vector<PassMoment>> moments_;
};

/// The device with the least matrix peak, given the least memory of all.
core::Device slowest_device(const core::Cluster&, core::DType precision);

/// Ranks that share one CPU core where a node has fewer cores than ranks; 1 otherwise.
double ranks_per_core(const core::Cluster&);

/// Rates, shares, money and energy of an estimate whose times and devices are set.
void add_rates(Estimate&, const core::Device&, const core::Job&);

}  // namespace orrery::costmodel
