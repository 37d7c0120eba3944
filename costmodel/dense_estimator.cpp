#include "costmodel/dense_estimator.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "core/lowering/parameter_layout.h"
#include "core/lowering/pipeline_schedule.h"
#include "core/lowering/rank_grid.h"
#include "costmodel/compute_cost.h"
#include "costmodel/pass_times.h"

namespace orrery::costmodel {

using core::Axis;
using core::Bytes;
using core::Rank;
using core::Seconds;

DenseEstimator::DenseEstimator(const core::Model& model, const core::Cluster& cluster,
                               const core::Job& job, EstimateOptions options)
    : model_(model),
      cluster_(cluster),
      job_(job),
      options_(options),
      device_(slowest_device(cluster, job.precision)),
      kinds_(device_kinds(cluster, job.precision)),
      ranks_per_core_(ranks_per_core(cluster)),
      fabric_(fabric_cost(cluster)),
      group_costs_(cluster) {}

// ---- what plans have in common -------------------------------------------------------------

const StagePasses& DenseEstimator::stage_passes(const core::DensePlan* alone,
                                                StagePlace ends) const {
  return stage_passes_.of({alone, ends}, [&] {
    const core::DensePlan structure = passes_structure_alone(*alone);
    const PassStructure& like = pass_structures_.of(
        {structure, ends}, [&] { return PassStructure(structure, ends, model_, job_); });
    return StagePasses(*alone, ends, like, model_, job_,
                       kinds_[static_cast<std::size_t>(ends.device)]);
  });
}

std::vector<int> DenseEstimator::devices_of_stages(const core::DensePlan& plan) const {
  std::vector<int> devices(static_cast<std::size_t>(plan.pipeline), 0);
  if (!several_kinds()) return devices;
  const core::RankGrid grid(plan);
  int rank = 0;
  for (const core::NodeGroup& group : cluster_.groups) {
    const auto kind = std::find_if(kinds_.begin(), kinds_.end(), [&](const core::Device& k) {
      return k.name == group.type.device.name;
    });
    const int index = static_cast<int>(kind - kinds_.begin());
    for (int end = rank + group.count * group.type.devices; rank < end; ++rank) {
      int& slowest = devices[static_cast<std::size_t>(grid.coordinate(Rank(rank), Axis::Pipeline))];
      slowest = std::max(slowest, index);
    }
  }
  return devices;
}

bool DenseEstimator::slices_evenly(int tensor, int sharding) const {
  if (has_experts())
    return sharding == 1;  // Their slices and the others' are shared by other ranks.
  const std::int64_t unit = even_slices_.of(tensor, [&] {
    std::int64_t common = 0;
    for (const auto& [first, last] : {std::pair(true, true), {true, false}, {false, true}}) {
      const core::StageSlice slice{{{0, 1}}, first, last, tensor, 1};
      for (const core::ParameterPart& part :
           core::stage_parameters(*model_.transformer, slice).parts) {
        common = std::gcd(common, part.range.count);
      }
    }
    return common;
  });
  return unit % sharding == 0;
}

PassSharing DenseEstimator::pass_sharing(const core::DensePlan& plan) const {
  if (plan.sharding_stage <= 1) return {};
  // Of a data group only matters whether it is there; how large it is, is its cost.
  const bool even = slices_evenly(plan.tensor, plan.sharding);
  return {plan.sharding_stage, std::min(plan.data, 2),
          even ? fewest_ways(plan.sharding) : plan.sharding};
}

DenseEstimator::PassesQuestion DenseEstimator::passes_question(const core::DensePlan& plan) const {
  core::DensePlan alone = passes_alone(plan);
  PassesQuestion question{.microbatch = plan.microbatch, .sharding = alone.sharding};
  const PassSharing sharing = pass_sharing(plan);
  alone.data = sharing.data;
  alone.sharding = sharing.sharding;
  const auto kept = [&] { return &alone_.of(alone, [&] { return alone; }); };
  // As many layers that recompute as are lowered: buffers are free later after the first.
  constexpr int kLowered = 3;
  question.further = std::max(plan.recompute_layers.value_or(0) - kLowered, 0);
  if (question.further > 0) {
    alone.recompute_layers = kLowered - 1;
    question.fewer = kept();
    alone.recompute_layers = kLowered;
  }
  question.alone = kept();
  return question;
}

const PlanGroups& DenseEstimator::groups_of_passes(const core::DensePlan& plan,
                                                   const PassesQuestion& question) const {
  const PlanGroups groups =
      group_costs_.within_stage(plan, core::dense_groups(*question.alone, has_experts()));
  return groups_of_passes_.of(groups, [&] { return groups; });
}

const StageProfile& DenseEstimator::lowered_profile(const PassesQuestion& question,
                                                    const core::DensePlan* alone,
                                                    const PlanGroups& groups,
                                                    StagePlace ends) const {
  const StagePasses& passes = stage_passes(alone, ends);
  return profiles_.of({&passes, &groups, question.microbatch, question.sharding}, [&] {
    PassConditions conditions = options_.passes;
    conditions.beside = kinds_[static_cast<std::size_t>(ends.device)].beside_communication;
    return passes.profile(question.microbatch, question.sharding, groups, fabric_, conditions);
  });
}

StageProfile DenseEstimator::profile(const PassesQuestion& question, const PlanGroups& groups,
                                     StagePlace ends) const {
  const StageProfile& lowered = lowered_profile(question, question.alone, groups, ends);
  if (question.further == 0) return lowered;
  return further(lowered_profile(question, question.fewer, groups, ends), lowered,
                 question.further);
}

std::vector<StageProfile> DenseEstimator::profiles(const core::DensePlan& plan) const {
  const PassesQuestion question = passes_question(plan);
  const PlanGroups& groups = groups_of_passes(plan, question);
  std::vector<StageProfile> result;
  for (const AlikeChunks& chunk : kinds(plan).chunks) {
    result.push_back(profile(question, groups, chunk.ends));
  }
  return result;
}

const StageKinds& DenseEstimator::kinds(const core::DensePlan& plan) const {
  const std::vector<int> devices = devices_of_stages(plan);
  return kinds_of_stages_.of({plan.pipeline, plan.layers_per_stage, devices},
                             [&] { return stage_kinds(plan, devices); });
}

const StepSizes& DenseEstimator::step_sizes(const core::DensePlan& sizes, StagePlace ends,
                                            int layers) const {
  return step_sizes_.of({sizes, ends, StepSizes::lowered(sizes, layers)}, [&] {
    return StepSizes(sizes, ends, layers, model_, kinds_[static_cast<std::size_t>(ends.device)],
                     job_);
  });
}

const EndBlock& DenseEstimator::end_block(const core::DensePlan& structure, StagePlace ends,
                                          int layers) const {
  const StepOutline& outline =
      step_outlines_.of({structure, ends, StepOutline::lowered(structure, layers)},
                        [&] { return StepOutline(structure, ends, layers, model_, job_); });
  return end_blocks_.of({&outline, layers}, [&] { return outline.block(layers); });
}

// ---- the passes ----------------------------------------------------------------------------

PlanPasses DenseEstimator::passes(const core::DensePlan& plan) const {
  PlanPasses result;
  result.shape = core::pipeline_shape(plan, core::microbatches(plan, job_.global_batch));
  result.kinds = &kinds(plan);
  const PassesQuestion question = passes_question(plan);
  const PlanGroups& groups = groups_of_passes(plan, question);
  for (const AlikeChunks& chunk : result.kinds->chunks) {
    const StageProfile one = profile(question, groups, chunk.ends);
    result.of_chunk.push_back(
        {.layers = chunk.layers,
         .forward = one.forward.makespan.at(chunk.layers) * ranks_per_core_,
         .backward = one.backward_pass(chunk.layers) * ranks_per_core_,
         .weight_grad = one.weight_grad.makespan.at(chunk.layers) * ranks_per_core_,
         .ahead = one.ahead * ranks_per_core_,
         .gradients = one.gradients,
         .message = one.message});
  }
  Seconds once, slowest;
  for (const std::size_t c : result.kinds->kind_of_chunk) {
    const ChunkPasses& chunk = result.of_chunk[c];
    once += chunk.forward + chunk.backward - chunk.ahead;
  }
  for (const AlikeStages& stage : result.kinds->stages) {
    Seconds& all = result.of_stage.emplace_back();
    for (const std::size_t c : stage.chunks) all += result.of_chunk[c].all();
    slowest = std::max(slowest, all);
  }
  result.lower_bound = std::max(once, slowest * result.shape.microbatches);
  return result;
}

core::PassTimes DenseEstimator::pass_times(const core::DensePlan& plan) const {
  core::DensePlan split = plan;
  split.schedule = core::PipelineSchedule::ZeroBubbleH1;
  split.pass_times.reset();
  return pass_times_.of(split, [&] {
    return costmodel::pass_times(pipeline(passes(split), steps(split)), memory(split).of_chunk);
  });
}

std::vector<int> DenseEstimator::balanced_layers(const core::DensePlan& plan) const {
  core::DensePlan one = plan;
  one.microbatch = 1;
  one.sequence_parallel = false;
  one.data = plan.data_ways() / plan.expert;
  one.sharding = 1;
  one.sharding_stage = 0;
  std::vector<int> devices = devices_of_stages(plan);
  for (int c = plan.pipeline; c < plan.pipeline * plan.virtual_stages; ++c) {
    devices.push_back(devices[static_cast<std::size_t>(c - plan.pipeline)]);
  }
  return levelled_.of({passes_alone(one), devices}, [&] { return levelled(one, devices); });
}

/// @param devices  Of its chunks.
std::vector<int> DenseEstimator::levelled(const core::DensePlan& plan,
                                          const std::vector<int>& devices) const {
  const PassesQuestion question = passes_question(plan);
  const PlanGroups& groups = groups_of_passes(plan, question);
  const int count = static_cast<int>(devices.size());
  std::vector<int> layers(devices.size(), 1);
  std::vector<StageProfile> chunks;
  StagePlace before;
  for (int c = 0; c < count; ++c) {
    const StagePlace place{c == 0, c == count - 1, devices[static_cast<std::size_t>(c)]};
    const bool alike = c > 0 && place == before;
    chunks.push_back(alike ? chunks.back() : profile(question, groups, place));
    before = place;
  }
  const auto load = [&](std::size_t c) { return chunks[c].passes(layers[c]); };
  for (int left = model_.transformer->layers - count; left > 0; --left) {
    std::size_t least = 0;
    for (std::size_t c = 1; c < layers.size(); ++c) {
      if (load(c) < load(least)) least = c;
    }
    ++layers[least];
  }
  return layers;
}

// ---- once a step ---------------------------------------------------------------------------

std::vector<Bytes> DenseEstimator::persistent(const core::DensePlan& plan) const {
  const core::DensePlan sizes = step_sizes_alone(plan);
  std::vector<Bytes> result;
  for (const AlikeStages& stage : kinds(plan).stages) {
    result.push_back(total(step_sizes(sizes, stage.ends, stage.layers).persistent(stage.layers)));
  }
  return result;
}

PlanSteps DenseEstimator::steps(const core::DensePlan& plan) const {
  PlanSteps result;
  result.reduces_in_passes = plan.sharding_stage > 1;
  const PlanGroups groups = group_costs_.of(plan, has_experts());
  if (plan.tensor > 1 && !plan.sequence_parallel) {
    result.tensor = groups.of(core::GroupKind::Tensor);
  }
  const core::DensePlan sizes = step_sizes_alone(plan);
  const core::DensePlan structure = step_structure_alone(plan);
  for (const AlikeStages& stage : kinds(plan).stages) {
    const EndBlock& block = end_block(structure, stage.ends, stage.layers);
    StepProfile& step = result.of_kind.emplace_back(
        step_sizes(sizes, stage.ends, stage.layers).profile(stage.layers, block, groups, fabric_));
    step.begin *= ranks_per_core_;
  }
  const core::RankGrid grid(plan);
  for (int s = 0; s < plan.pipeline; ++s) {
    result.routes.push_back(route(grid, s, (s + 1) % plan.pipeline));
  }
  return result;
}

MessageRoute DenseEstimator::route(const core::RankGrid& grid, int from_stage, int to_stage) const {
  const int from = grid.moved(Rank(0), Axis::Pipeline, std::min(from_stage, to_stage)).value;
  const int to = grid.moved(Rank(0), Axis::Pipeline, std::max(from_stage, to_stage)).value;
  const int stride = grid.stride(Axis::Pipeline);
  // Neighbouring ranks of the stage send at the same time, each to its own peer.
  const int last = std::min(to + stride, cluster_.devices()) - 1;
  const int node = cluster_.node_of(from);
  const int there = cluster_.node_of(last);
  const core::NodeType& type = cluster_.node_type(node);
  const int cards = std::max(1, std::min(type.network_cards, type.devices));
  const int users = std::min(stride, (type.devices + cards - 1) / cards);
  const bool same_leaf = fabric_.nodes_per_leaf == 0 ||
                         node / fabric_.nodes_per_leaf == there / fabric_.nodes_per_leaf;
  return {node == there, same_leaf, node == there ? stride : users};
}

Seconds DenseEstimator::exchange_time(Bytes message, const MessageRoute& route,
                                      const PlanSteps& steps) const {
  const auto time = [&](Bytes bytes) {
    return message_time(bytes, route.same_node, route.same_leaf, route.users, fabric_);
  };
  Seconds exchange = time(message);
  if (options_.messages_split && steps.tensor) {
    exchange = time(message / steps.tensor->alone.members()) +
               collective_time(core::CollectiveKind::AllGather, message, *steps.tensor, fabric_);
  }
  return options_.messages_take_turns ? 2 * exchange : exchange;
}

PipelineStages DenseEstimator::pipeline(const PlanPasses& passes, const PlanSteps& steps) const {
  PipelineStages stages;
  const std::size_t count = passes.kinds->kind_of_chunk.size();
  for (auto* durations :
       {&stages.forward, &stages.backward, &stages.weight_grad, &stages.ahead, &stages.message}) {
    durations->reserve(count);
  }
  for (std::size_t c = 0; c < count; ++c) {
    const ChunkPasses& kind = passes.of_chunk[passes.kinds->kind_of_chunk[c]];
    stages.forward.push_back(kind.forward);
    stages.backward.push_back(kind.backward);
    stages.weight_grad.push_back(kind.weight_grad);
    stages.ahead.push_back(kind.ahead);
    if (c + 1 == count) break;
    stages.message.push_back(
        exchange_time(kind.message, steps.routes[c % steps.routes.size()], steps));
  }
  for (const std::size_t k : passes.kinds->kind_of_stage)
    stages.begin.push_back(steps.of_kind[k].begin);
  return stages;
}

PlanFinish plan_finish(const PlanPasses& passes, const std::vector<Seconds>& finish_of_chunks) {
  PlanFinish finish;
  const StageKinds& kinds = *passes.kinds;
  for (const AlikeStages& stage : kinds.stages) {
    finish.of_kind.emplace_back(stage.chunks.size());
  }
  const std::size_t stages = kinds.kind_of_stage.size();
  for (std::size_t c = 0; c < finish_of_chunks.size(); ++c) {
    Seconds& latest = finish.of_kind[kinds.kind_of_stage[c % stages]][c / stages];
    latest = std::max(latest, finish_of_chunks[c]);
  }
  for (std::size_t c = 0; c < finish_of_chunks.size(); c += stages) {
    finish.first_stage = std::max(finish.first_stage, finish_of_chunks[c]);
  }
  return finish;
}

EndOfStep DenseEstimator::end_of_step(const PlanPasses& passes, const PlanSteps& steps,
                                      const PlanFinish& finish) const {
  const std::vector<AlikeStages>& kinds = passes.kinds->stages;
  std::vector<EndingStage> stages(kinds.size());
  for (std::size_t k = 0; k < stages.size(); ++k) {
    stages[k].step = &steps.of_kind[k];
    stages[k].ends = kinds[k].ends;
    stages[k].reduces_in_passes = steps.reduces_in_passes;
    for (std::size_t c = 0; c < kinds[k].chunks.size(); ++c) {
      const ChunkPasses& chunk = passes.of_chunk[kinds[k].chunks[c]];
      const bool split = core::splits_backward(passes.shape.schedule);
      stages[k].chunks.push_back({&chunk.gradients, chunk.layers, finish.of_kind[k][c],
                                  split ? chunk.weight_grad : chunk.backward});
    }
    stages[k].beside = kinds_[static_cast<std::size_t>(stages[k].ends.device)].beside_communication;
    set_interference(stages[k], ranks_per_core_);
  }
  // A stage's last backward pass waits for that of the next one.
  Seconds delay;
  const std::vector<std::size_t>& in_pipeline = passes.kinds->kind_of_stage;
  for (auto k = in_pipeline.rbegin(); k != in_pipeline.rend(); ++k) {
    delay += stages[*k].own;
    stages[*k].delay = delay;
  }
  return costmodel::end_of_step(stages, ranks_per_core_);
}

}  // namespace orrery::costmodel
