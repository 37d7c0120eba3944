#include "costmodel/dense_estimator.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "core/error.h"
#include "core/lowering/parameter_layout.h"
#include "core/lowering/pipeline_schedule.h"
#include "core/lowering/rank_grid.h"
#include "core/quantity_text.h"
#include "costmodel/compute_cost.h"
#include "costmodel/pass_times.h"

namespace orrery::costmodel {
namespace {

using core::Axis;
using core::Bytes;
using core::Rank;
using core::Seconds;

StagePlace place_of(int index, int count, int device) {
  return {index == 0, index == count - 1, device};
}

/// Position of the entry that `same` says is alike, added where there is none.
template <class Kind, class Same, class Make>
std::size_t kind_index(std::vector<Kind>& kinds, Same same, Make make) {
  const auto found = std::find_if(kinds.begin(), kinds.end(), same);
  const auto index = static_cast<std::size_t>(found - kinds.begin());
  if (found == kinds.end()) kinds.push_back(make());
  return index;
}

}  // namespace

core::Device slowest_device(const core::Cluster& cluster, core::DType precision) {
  ORRERY_CHECK(!cluster.groups.empty(), "a cluster without nodes");
  core::Device slowest = cluster.groups.front().type.device;
  Bytes memory = slowest.memory;
  for (const core::NodeGroup& group : cluster.groups) {
    const core::Device& device = group.type.device;
    memory = std::min(memory, device.memory);
    if (matrix_peak(device, precision) < matrix_peak(slowest, precision)) slowest = device;
  }
  slowest.memory = memory;
  return slowest;
}

std::vector<core::Device> device_kinds(const core::Cluster& cluster, core::DType precision) {
  std::vector<core::Device> kinds;
  for (const core::NodeGroup& group : cluster.groups) {
    const core::Device& device = group.type.device;
    const bool known = std::any_of(kinds.begin(), kinds.end(), [&](const core::Device& kind) {
      return kind.name == device.name;
    });
    if (!known) kinds.push_back(device);
  }
  std::stable_sort(kinds.begin(), kinds.end(), [&](const core::Device& a, const core::Device& b) {
    return matrix_peak(a, precision) > matrix_peak(b, precision);
  });
  return kinds;
}

double ranks_per_core(const core::Cluster& cluster) {
  double most = 1.0;
  for (const core::NodeGroup& group : cluster.groups) {
    const core::NodeType& type = group.type;
    if (type.device.kind != core::DeviceKind::Cpu || type.cores < 1) continue;
    most = std::max(most, static_cast<double>(type.devices) / type.cores);
  }
  return most;
}

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

// It is made outside the lock: two threads may do so at once, and the first one's is kept.
template <class Map, class Make>
const typename Map::mapped_type& DenseEstimator::known(Map& map, const typename Map::key_type& key,
                                                       Make make) const {
  {
    const std::lock_guard lock(mutex_);
    const auto found = map.find(key);
    if (found != map.end()) return found->second;
  }
  typename Map::mapped_type made = make();
  const std::lock_guard lock(mutex_);
  return map.try_emplace(key, std::move(made)).first->second;
}

const StagePasses& DenseEstimator::stage_passes(const core::DensePlan& alone,
                                                StagePlace ends) const {
  return known(stage_passes_, {alone, ends}, [&] {
    const core::DensePlan structure = passes_structure_alone(alone);
    return StagePasses(alone, ends,
                       known(pass_structures_, {structure, ends},
                             [&] { return PassStructure(structure, ends, model_, job_); }),
                       model_, job_, kinds_[static_cast<std::size_t>(ends.device)]);
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
  const std::int64_t unit = known(even_slices_, tensor, [&] {
    std::int64_t common = 0;
    for (const auto& [first, last] : {std::pair(true, true), {true, false}, {false, true}}) {
      const core::StageSlice slice{{{0, 1}}, first, last, tensor, 1};
      for (const core::ParameterRange& part :
           core::stage_parameters(*model_.transformer, slice).parts) {
        common = std::gcd(common, part.count);
      }
    }
    return common;
  });
  return unit % sharding == 0;
}

DenseEstimator::PassesQuestion DenseEstimator::passes_question(const core::DensePlan& plan) const {
  PassesQuestion question{passes_alone(plan), {}, plan.microbatch, 1};
  core::DensePlan& alone = question.alone;
  question.sharding = alone.sharding;
  if (slices_evenly(plan.tensor, alone.sharding)) alone.sharding = fewest_ways(alone.sharding);
  question.groups = group_costs_.within_stage(plan, core::dense_groups(question.alone));
  return question;
}

const StageProfile& DenseEstimator::profile(const PassesQuestion& question, StagePlace ends) const {
  const StagePasses& passes = stage_passes(question.alone, ends);
  return known(profiles_, {&passes, question.microbatch, question.sharding, question.groups}, [&] {
    return passes.profile(question.microbatch, question.sharding, question.groups, fabric_,
                          options_.passes);
  });
}

const StepSizes& DenseEstimator::step_sizes(const StepsQuestion& question, StagePlace ends,
                                            int layers) const {
  return known(step_sizes_, {question.sizes, ends, StepSizes::lowered(question.sizes, layers)},
               [&] {
                 return StepSizes(question.sizes, ends, layers, model_,
                                  kinds_[static_cast<std::size_t>(ends.device)], job_);
               });
}

const EndBlock& DenseEstimator::end_block(const StepsQuestion& question, StagePlace ends,
                                          int layers) const {
  const core::DensePlan& alone = question.structure;
  const StepOutline& outline =
      known(step_outlines_, {alone, ends, StepOutline::lowered(alone, layers)},
            [&] { return StepOutline(alone, ends, layers, model_, job_); });
  return known(end_blocks_, {&outline, layers}, [&] { return outline.block(layers); });
}

const std::vector<PassMoment>& DenseEstimator::moments(const core::PipelineShape& shape, int stage,
                                                       const ChunkKinds& kinds) const {
  return known(moments_, {as_full(shape), stage, kinds},
               [&] { return fullest_moments(shape, stage, kinds); });
}

// ---- the passes ----------------------------------------------------------------------------

void DenseEstimator::add_chunks(const core::DensePlan& plan, PlanPasses& result) const {
  const PassesQuestion question = passes_question(plan);
  const int count = plan.pipeline * plan.virtual_stages;
  const std::vector<int> devices = devices_of_stages(plan);
  result.chunks.reserve(4);  // First, last, and those between.
  result.kind_of_chunk.reserve(static_cast<std::size_t>(count));
  for (int c = 0; c < count; ++c) {
    const StagePlace ends =
        place_of(c, count, devices[static_cast<std::size_t>(c % plan.pipeline)]);
    const int layers = plan.layers_per_stage[static_cast<std::size_t>(c)];
    result.kind_of_chunk.push_back(kind_index(
        result.chunks,
        [&](const AlikeChunks& kind) { return kind.ends == ends && kind.layers == layers; },
        [&]() -> AlikeChunks {
          const StageProfile& one = profile(question, ends);
          return {.ends = ends,
                  .layers = layers,
                  .profile = &one,
                  .forward = one.forward.makespan.at(layers) * ranks_per_core_,
                  .backward = one.backward_pass(layers) * ranks_per_core_,
                  .weight_grad = one.weight_grad.makespan.at(layers) * ranks_per_core_,
                  .ahead = one.ahead * ranks_per_core_};
        }));
  }
}

void DenseEstimator::add_stages(const core::DensePlan& plan, PlanPasses& result) const {
  std::vector<std::size_t> chunks;
  const std::vector<int> devices = devices_of_stages(plan);
  result.stages.reserve(4);
  result.kind_of_stage.reserve(static_cast<std::size_t>(plan.pipeline));
  for (int s = 0; s < plan.pipeline; ++s) {
    const StagePlace ends = place_of(s, plan.pipeline, devices[static_cast<std::size_t>(s)]);
    chunks.clear();
    for (auto c = static_cast<std::size_t>(s); c < result.kind_of_chunk.size();
         c += static_cast<std::size_t>(plan.pipeline)) {
      chunks.push_back(result.kind_of_chunk[c]);
    }
    result.kind_of_stage.push_back(kind_index(
        result.stages,
        [&](const AlikeStages& kind) { return kind.ends == ends && kind.chunks == chunks; },
        [&] {
          AlikeStages kind{.ends = ends, .chunks = chunks, .first = s, .passes = Seconds(0)};
          for (const std::size_t c : chunks) {
            kind.layers += result.chunks[c].layers;
            kind.passes += result.chunks[c].passes();
          }
          return kind;
        }));
  }
}

namespace {

/// By kind of chunk.
std::vector<PassMemory> memory_of_chunks(const PlanPasses& passes) {
  std::vector<PassMemory> memory;
  memory.reserve(passes.chunks.size());
  for (const AlikeChunks& kind : passes.chunks) memory.push_back(kind.profile->memory(kind.layers));
  return memory;
}

}  // namespace

std::vector<StagePeak> DenseEstimator::peaks(const PlanPasses& passes) const {
  // A schedule that keeps for the weight gradients what it no longer saves may be fullest anywhere;
  // the others fill a stage the more the earlier it stands.
  const bool anywhere = core::splits_backward(passes.shape.schedule);
  // Computed orders are hardly ever met twice, and come for all stages at once.
  std::vector<std::vector<PassMoment>> computed;
  if (core::computed_from_durations(passes.shape.schedule)) {
    computed = fullest_moments(passes.shape);
  }
  const std::vector<PassMemory> memory = memory_of_chunks(passes);
  std::vector<StagePeak> result(passes.stages.size());
  std::vector<const PassMemory*> chunks;  // By kind within the stage.
  ChunkKinds kinds;
  for (int s = 0; s < passes.shape.stages; ++s) {
    const std::size_t k = passes.kind_of_stage[static_cast<std::size_t>(s)];
    if (!anywhere && passes.stages[k].first != s) continue;
    chunks.clear();
    kinds.clear();
    for (const std::size_t c : passes.stages[k].chunks) {
      const PassMemory* of_chunk = &memory[c];
      kinds.push_back(kind_index(
          chunks, [=](const PassMemory* kind) { return kind == of_chunk; },
          [=] { return of_chunk; }));
    }
    const MemoryByTerm peak =
        peak_of_passes(chunks, computed.empty() ? moments(passes.shape, s, kinds)
                                                : computed[static_cast<std::size_t>(s)]);
    if (total(peak) > total(result[k].memory)) result[k] = {s, peak};
  }
  return result;
}

std::vector<Bytes> DenseEstimator::least_peaks(const PlanPasses& passes) const {
  std::vector<Bytes> of_chunks;
  for (const PassMemory& chunk : memory_of_chunks(passes)) {
    of_chunks.push_back(std::max(total(chunk.forward.peak), total(chunk.backward.peak)));
  }
  std::vector<Bytes> result;
  for (const AlikeStages& stage : passes.stages) {
    Bytes least;
    for (const std::size_t c : stage.chunks) least = std::max(least, of_chunks[c]);
    result.push_back(least);
  }
  return result;
}

PlanPasses DenseEstimator::passes(const core::DensePlan& plan) const {
  PlanPasses result;
  result.shape = core::pipeline_shape(plan, core::microbatches(plan, job_.global_batch));
  add_chunks(plan, result);
  add_stages(plan, result);
  Seconds once, slowest;
  for (const std::size_t c : result.kind_of_chunk) {
    const AlikeChunks& chunk = result.chunks[c];
    once += chunk.forward + chunk.backward - chunk.ahead;
  }
  for (const AlikeStages& stage : result.stages) slowest = std::max(slowest, stage.passes);
  result.lower_bound = std::max(once, slowest * result.shape.microbatches);
  return result;
}

core::PassTimes DenseEstimator::pass_times(const core::DensePlan& plan) const {
  core::DensePlan split = plan;
  split.schedule = core::PipelineSchedule::ZeroBubbleH1;
  split.pass_times.reset();
  return known(pass_times_, split, [&] {
    const PlanPasses all = passes(split);
    return costmodel::pass_times(pipeline(all, steps(split)), memory_of_chunks(all));
  });
}

std::vector<int> DenseEstimator::balanced_layers(const core::DensePlan& plan) const {
  core::DensePlan one = plan;
  one.microbatch = 1;
  one.sequence_parallel = false;
  one.data = plan.data_ways();
  one.sharding = 1;
  one.sharding_stage = 0;
  std::vector<int> devices = devices_of_stages(plan);
  for (int c = plan.pipeline; c < plan.pipeline * plan.virtual_stages; ++c) {
    devices.push_back(devices[static_cast<std::size_t>(c - plan.pipeline)]);
  }
  return known(levelled_, {passes_alone(one), devices}, [&] { return levelled(one, devices); });
}

/// @param devices  Of its chunks.
std::vector<int> DenseEstimator::levelled(const core::DensePlan& plan,
                                          const std::vector<int>& devices) const {
  const PassesQuestion question = passes_question(plan);
  const int count = static_cast<int>(devices.size());
  std::vector<int> layers(devices.size(), 1);
  std::vector<const StageProfile*> chunks;
  StagePlace before;
  for (int c = 0; c < count; ++c) {
    const StagePlace place = place_of(c, count, devices[static_cast<std::size_t>(c)]);
    const bool alike = c > 0 && place == before;
    chunks.push_back(alike ? chunks.back() : &profile(question, place));
    before = place;
  }
  const auto load = [&](std::size_t c) { return chunks[c]->passes(layers[c]); };
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

namespace {

/// A kind of stage as far as the ends of its step depend on it.
struct SteppingStage {
  StagePlace ends;
  std::vector<int> chunks;  ///< Their layers.
  int layers() const { return std::accumulate(chunks.begin(), chunks.end(), 0); }
  auto operator<=>(const SteppingStage&) const = default;
};

/// In the order in which add_stages() meets them.
std::vector<SteppingStage> stepping_stages(const core::DensePlan& plan,
                                           const std::vector<int>& devices) {
  std::vector<SteppingStage> kinds;
  SteppingStage kind;
  for (int s = 0; s < plan.pipeline; ++s) {
    kind.ends = place_of(s, plan.pipeline, devices[static_cast<std::size_t>(s)]);
    kind.chunks.clear();
    for (auto c = static_cast<std::size_t>(s); c < plan.layers_per_stage.size();
         c += static_cast<std::size_t>(plan.pipeline)) {
      kind.chunks.push_back(plan.layers_per_stage[c]);
    }
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(kind);
  }
  return kinds;
}

}  // namespace

DenseEstimator::StepsQuestion DenseEstimator::steps_question(const core::DensePlan& plan) {
  return {step_sizes_alone(plan), step_structure_alone(plan)};
}

std::vector<Bytes> DenseEstimator::persistent(const core::DensePlan& plan) const {
  const StepsQuestion question = steps_question(plan);
  std::vector<Bytes> result;
  for (const SteppingStage& stage : stepping_stages(plan, devices_of_stages(plan))) {
    const int layers = stage.layers();
    result.push_back(total(step_sizes(question, stage.ends, layers).persistent(layers)));
  }
  return result;
}

PlanSteps DenseEstimator::steps(const core::DensePlan& plan) const {
  PlanSteps result;
  const PlanGroups groups = group_costs_.of(plan);
  if (plan.tensor > 1 && !plan.sequence_parallel) {
    result.tensor = groups.of(core::GroupKind::Tensor);
  }
  const StepsQuestion question = steps_question(plan);
  for (const SteppingStage& stage : stepping_stages(plan, devices_of_stages(plan))) {
    const int layers = stage.layers();
    StepProfile& step = result.of_kind.emplace_back(
        step_sizes(question, stage.ends, layers)
            .profile(layers, end_block(question, stage.ends, layers), groups, fabric_));
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
  const std::size_t count = passes.kind_of_chunk.size();
  for (auto* durations :
       {&stages.forward, &stages.backward, &stages.weight_grad, &stages.ahead, &stages.message}) {
    durations->reserve(count);
  }
  for (std::size_t c = 0; c < count; ++c) {
    const AlikeChunks& kind = passes.chunks[passes.kind_of_chunk[c]];
    stages.forward.push_back(kind.forward);
    stages.backward.push_back(kind.backward);
    stages.weight_grad.push_back(kind.weight_grad);
    stages.ahead.push_back(kind.ahead);
    if (c + 1 == count) break;
    stages.message.push_back(
        exchange_time(kind.profile->message, steps.routes[c % steps.routes.size()], steps));
  }
  for (const std::size_t k : passes.kind_of_stage) stages.begin.push_back(steps.of_kind[k].begin);
  return stages;
}

PlanFinish plan_finish(const PlanPasses& passes, const std::vector<Seconds>& finish_of_chunks) {
  PlanFinish finish;
  for (const AlikeStages& stage : passes.stages) {
    finish.of_kind.emplace_back(stage.chunks.size());
  }
  const std::size_t stages = passes.kind_of_stage.size();
  for (std::size_t c = 0; c < finish_of_chunks.size(); ++c) {
    Seconds& latest = finish.of_kind[passes.kind_of_stage[c % stages]][c / stages];
    latest = std::max(latest, finish_of_chunks[c]);
  }
  for (std::size_t c = 0; c < finish_of_chunks.size(); c += stages) {
    finish.first_stage = std::max(finish.first_stage, finish_of_chunks[c]);
  }
  return finish;
}

EndOfStep DenseEstimator::end_of_step(const PlanPasses& passes, const PlanSteps& steps,
                                      const PlanFinish& finish) const {
  std::vector<EndingStage> stages(passes.stages.size());
  for (std::size_t k = 0; k < stages.size(); ++k) {
    stages[k].step = &steps.of_kind[k];
    stages[k].ends = passes.stages[k].ends;
    for (std::size_t c = 0; c < passes.stages[k].chunks.size(); ++c) {
      const AlikeChunks& chunk = passes.chunks[passes.stages[k].chunks[c]];
      stages[k].chunks.push_back({&chunk.profile->gradients, chunk.layers, finish.of_kind[k][c]});
    }
  }
  return costmodel::end_of_step(stages, ranks_per_core_);
}

// ---- memory --------------------------------------------------------------------------------

DenseEstimator::Fullest DenseEstimator::fullest(const std::vector<StagePeak>& peaks,
                                                const PlanSteps& steps) const {
  Fullest most;
  Bytes largest;
  for (std::size_t k = 0; k < peaks.size(); ++k) {
    MemoryByTerm memory = steps.of_kind[k].persistent + peaks[k].memory;
    memory[static_cast<std::size_t>(MemoryTerm::Reserved)] += device_.reserved;
    const Bytes sum = total(memory);
    if (sum <= largest) continue;
    largest = sum;
    most = {peaks[k].stage, memory};
  }
  return most;
}

DenseEstimator::Fullest DenseEstimator::fullest(const core::DensePlan& plan) const {
  return fullest(peaks(passes(plan)), steps(plan));
}

Infeasible DenseEstimator::too_large(const Fullest& most, Bytes available) const {
  const std::string most_of_it = core::text(available);
  const std::string limit = available < device_.memory
                                ? fmt::format("a plan may use {} of {}", most_of_it, device_.name)
                                : fmt::format("{} has {}", device_.name, most_of_it);
  return {.reason = Infeasible::Reason::Memory,
          .why = fmt::format("stage {} needs {} on each device, {}", most.stage,
                             core::text(total(most.memory)), limit),
          .needed = total(most.memory),
          .available = available};
}

std::optional<Infeasible> DenseEstimator::does_not_fit(const core::DensePlan& plan) const {
  const Fullest most = fullest(plan);
  if (total(most.memory) <= device_.memory) return std::nullopt;
  return too_large(most, device_.memory);
}

}  // namespace orrery::costmodel
