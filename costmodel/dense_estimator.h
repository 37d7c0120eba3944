#pragma once
// Estimates many dense plans of one model, cluster and job: what plans have in common (profiles of
// stages, placements of groups) is worked out once.
//
//   step = pipeline, from the zeroing of gradients on (costmodel/pipeline_cost.h)
//        + end of step (costmodel/end_of_step.h)

#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "costmodel/alike_stages.h"
#include "costmodel/collective_cost.h"
#include "costmodel/device_kinds.h"
#include "costmodel/end_of_step.h"
#include "costmodel/estimate.h"
#include "costmodel/group_cost.h"
#include "costmodel/kept_by_key.h"
#include "costmodel/pipeline_cost.h"
#include "costmodel/pipeline_occupancy.h"
#include "costmodel/stage_profile.h"
#include "costmodel/step_profile.h"

namespace orrery::costmodel {

/// The passes of one microbatch of a chunk.
struct ChunkPasses {
  int layers = 0;
  core::Seconds forward, backward, weight_grad, ahead;
  GradientTimes gradients;
  core::Bytes message;  ///< To a neighbouring stage.
  core::Seconds all() const { return forward + backward + weight_grad; }
};

/// The passes of a plan's stages.
struct PlanPasses {
  core::PipelineShape shape;
  const StageKinds* kinds = nullptr;
  std::vector<ChunkPasses> of_chunk;    ///< By kind.
  std::vector<core::Seconds> of_stage;  ///< All of one microbatch, by kind of stage.
  /// No more than the step's time: each stage runs all its passes, and stage 0 waits for the first
  /// and the last of the others.
  core::Seconds lower_bound;
};

/// What the passes of a plan's stages hold.
struct PlanMemory {
  core::PipelineShape shape;
  const StageKinds* kinds = nullptr;
  std::vector<PassMemory> of_chunk;  ///< By kind.
};

/// What the passes of a kind of stage need.
struct StagePeak {
  int stage = 0;  ///< Of that kind, the one that needs most.
  MemoryByTerm memory{};
};

/// What of the way in which data ways share the passes depend on: up to stage 1 nothing.
struct PassSharing {
  int stage = 0, data = 1, sharding = 1;
  auto operator<=>(const PassSharing&) const = default;
};

/// When the last passes of a plan's chunks end, and with them its stages'.
struct PlanFinish {
  /// Of each kind of stage, by chunk: the latest of such stages.
  std::vector<std::vector<core::Seconds>> of_kind;
  core::Seconds first_stage;  ///< The pipeline's time.
};

/// How a message travels from a stage to the next.
struct MessageRoute {
  bool same_node = true, same_leaf = true;
  int users = 1;  ///< Devices that send through the busiest link at once.
  auto operator<=>(const MessageRoute&) const = default;
};

/// What a plan's stages do once a step, and the routes between them.
struct PlanSteps {
  std::vector<StepProfile> of_kind;  ///< By kind of stage, as in PlanPasses.
  std::vector<MessageRoute> routes;  ///< From each stage to the next; from the last to the first.
  std::optional<GroupCost> tensor;   ///< Whose ranks hold the same messages.
  bool reduces_in_passes = false;    ///< Gradients are summed within the passes.
};

/// What a framework does that neither plan nor cluster says. The simulator and the engine know
/// nothing of it: it is for telling other people's runs.
struct EstimateOptions {
  /// Two stages send each other an activation and a gradient one after the other, on the stream that
  /// computes. 1F1B then waits for two messages in each direction per microbatch, twice as long as
  /// when each direction has a stream of its own.
  bool messages_take_turns = false;
  PassConditions passes = {};
  /// Every rank of a tensor group sends its share of a message that all of them hold, and the receivers
  /// gather the shares.
  bool messages_split = false;
};

/// Safe to use from several threads; every answer depends on its plan alone. On a cluster of
/// unequal nodes a stage is as fast as the slowest device that it has a rank on, and all devices have
/// the least memory of any.
class DenseEstimator {
 public:
  DenseEstimator(const core::Model&, const core::Cluster&, const core::Job&,
                 EstimateOptions options = {});

  /// All functions take valid plans (core::why_invalid). This one times a plan whether it fits or
  /// not.
  Estimate estimate(const core::DensePlan&) const;

  /// Why the plan's fullest stage does not fit its device's memory; absent where it does.
  std::optional<Infeasible> does_not_fit(const core::DensePlan&) const;

  /// Layers per stage that level the stages' passes on one sequence (all of it on each rank) where
  /// data ways share nothing, the first one's embedding and the last one's head included.
  std::vector<int> balanced_layers(const core::DensePlan&) const;

  /// What a schedule that is computed from durations is to be computed from for this plan, whose own
  /// schedule does not matter. Its recompute is None.
  core::PassTimes pass_times(const core::DensePlan&) const;

  // What an estimate is made of, for whoever keeps it from one plan to the next
  // (costmodel/plan_timer.h).
  const StageKinds& kinds(const core::DensePlan&) const;
  PassSharing pass_sharing(const core::DensePlan&) const;
  PlanMemory memory(const core::DensePlan&) const;
  /// By kind of stage.
  std::vector<StagePeak> peaks(const PlanMemory&) const;
  /// No more than their totals, whatever the order of passes: one microbatch alone.
  static std::vector<core::Bytes> least_peaks(const PlanMemory&);
  PlanPasses passes(const core::DensePlan&) const;
  PlanSteps steps(const core::DensePlan&) const;
  /// Of the steps, what lives throughout, by kind of stage: sooner known.
  std::vector<core::Bytes> persistent(const core::DensePlan&) const;
  PipelineStages pipeline(const PlanPasses&, const PlanSteps&) const;
  EndOfStep end_of_step(const PlanPasses&, const PlanSteps&, const PlanFinish&) const;
  /// The stage whose devices need most, Device::reserved included.
  struct Fullest {
    int stage = 0;
    MemoryByTerm memory{};
  };
  Fullest fullest(const std::vector<StagePeak>&, const PlanSteps&) const;
  Fullest fullest(const core::DensePlan&) const;
  Infeasible too_large(const Fullest&, core::Bytes available) const;

  /// The slowest.
  const core::Device& device() const { return device_; }
  /// Whether the cluster has devices of several kinds, so that stages differ by where they lie.
  bool several_kinds() const { return kinds_.size() > 1; }
  const core::Cluster& cluster() const { return cluster_; }

 private:
  /// What the passes of a plan's stages depend on.
  struct PassesQuestion {
    // One of those that are equal.
    const core::DensePlan* alone =
        nullptr;  ///< passes_alone(), of pass_sharing(); of a few layers that
                  ///< recompute
    const core::DensePlan* fewer =
        nullptr;      ///< With one layer less that recomputes; where further() is asked
    int further = 0;  ///< for so many layers.
    int microbatch = 1, sharding = 1;
  };
  PassesQuestion passes_question(const core::DensePlan&) const;
  /// Whether the parts of a stage's parameters are cut into slices without padding.
  bool slices_evenly(int tensor, int sharding) const;
  const StagePasses& stage_passes(const core::DensePlan* alone, StagePlace) const;
  const StageProfile& lowered_profile(const PassesQuestion&, const core::DensePlan* alone,
                                      const PlanGroups&, StagePlace) const;
  StageProfile profile(const PassesQuestion&, const PlanGroups&, StagePlace) const;
  StageMemory stage_memory(const PassesQuestion&, StagePlace) const;
  /// By kind of chunk.
  std::vector<StageProfile> profiles(const core::DensePlan&) const;
  const PlanGroups& groups_of_passes(const core::DensePlan&, const PassesQuestion&) const;
  const EndBlock& end_block(const core::DensePlan& structure, StagePlace, int layers) const;
  const StepSizes& step_sizes(const core::DensePlan& sizes, StagePlace, int layers) const;
  const std::vector<PassMoment>& moments(const core::PipelineShape&, int stage,
                                         const ChunkKinds&) const;
  std::vector<int> levelled(const core::DensePlan&, const std::vector<int>& devices) const;
  /// Of each stage, the slowest kind of device that it has a rank on: into kinds_.
  std::vector<int> devices_of_stages(const core::DensePlan&) const;
  MessageRoute route(const core::RankGrid&, int from_stage, int to_stage) const;
  core::Seconds exchange_time(core::Bytes message, const MessageRoute&, const PlanSteps&) const;
  core::Seconds computing(const StageProfile&, int layers) const;
  Estimate add_up(const core::DensePlan&, const PlanPasses&, const PipelineStages&,
                  core::Seconds pipeline_time, const EndOfStep&) const;

  const core::Model model_;
  const core::Cluster& cluster_;
  const core::Job& job_;
  EstimateOptions options_;
  core::Device device_;
  std::vector<core::Device> kinds_;  ///< Fastest first.
  double ranks_per_core_ = 1.0;      ///< CPU ranks that share one core; 1 where each has its own.
  FabricCost fabric_;
  bool has_experts() const { return model_.transformer->experts > 1; }

  GroupCosts group_costs_;

  using Place = std::pair<core::DensePlan, StagePlace>;
  KeptByKey<Place, PassStructure> pass_structures_;  ///< By passes_structure_alone() of a plan.
  KeptByKey<core::DensePlan, core::DensePlan> alone_;
  KeptByKey<std::pair<const core::DensePlan*, StagePlace>, StagePasses> stage_passes_;
  /// By them, the groups, the microbatch and the ranks that share.
  KeptByKey<std::tuple<const StagePasses*, const PlanGroups*, int, int>, StageProfile> profiles_;
  KeptByKey<PlanGroups, PlanGroups> groups_of_passes_;  ///< One of those that are equal.
  KeptByKey<std::pair<const StagePasses*, int>, StageMemory> memories_;
  KeptByKey<int, std::int64_t> even_slices_;  ///< By tensor degree.
  /// By step_sizes_alone() of a plan, the stage's place and the layers that are lowered; likewise
  /// step_structure_alone(); by the outline and the layers.
  using StepQuestion = std::tuple<core::DensePlan, StagePlace, int>;
  KeptByKey<StepQuestion, StepSizes> step_sizes_;
  KeptByKey<StepQuestion, StepOutline> step_outlines_;
  KeptByKey<std::pair<const StepOutline*, int>, EndBlock> end_blocks_;
  KeptByKey<std::tuple<core::PipelineShape, int, ChunkKinds>, std::vector<PassMoment>> moments_;
  /// By the stages, the layers of the chunks, and the devices of the stages.
  KeptByKey<std::tuple<int, std::vector<int>, std::vector<int>>, StageKinds> kinds_of_stages_;
  /// By passes_alone() of a plan and the devices of its chunks.
  KeptByKey<std::pair<core::DensePlan, std::vector<int>>, std::vector<int>> levelled_;
  KeptByKey<core::DensePlan, core::PassTimes> pass_times_;
};

/// @param finish_of_chunks  pipeline_finish() of the plan.
PlanFinish plan_finish(const PlanPasses&, const std::vector<core::Seconds>& finish_of_chunks);

/// Rates, shares, money and energy of an estimate whose times and devices are set.
void add_rates(Estimate&, const core::Device&, const core::Job&);

}  // namespace orrery::costmodel
