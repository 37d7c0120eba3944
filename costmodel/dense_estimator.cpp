#include "costmodel/dense_estimator.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "core/error.h"
#include "core/lowering/parameter_layout.h"
#include "core/lowering/rank_grid.h"
#include "costmodel/compute_cost.h"

namespace orrery::costmodel {
namespace {

using core::Axis;
using core::Bytes;
using core::CollectiveKind;
using core::Rank;
using core::Seconds;

constexpr double kGiB = 1073741824.0;

bool is_first(int stage) { return stage == 0; }
bool is_last(const core::DensePlan& plan, int stage) { return stage == plan.pipeline - 1; }
int chunks_of(const core::DensePlan& plan) { return plan.pipeline * plan.virtual_stages; }
int layers_of(const core::DensePlan& plan, int stage) {
  int layers = 0;
  for (int c = stage; c < chunks_of(plan); c += plan.pipeline) {
    layers += plan.layers_per_stage[static_cast<std::size_t>(c)];
  }
  return layers;
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
                               const core::Job& job)
    : model_(model.transformer.value()),
      cluster_(cluster),
      job_(job),
      device_(slowest_device(cluster, job.precision)),
      ranks_per_core_(ranks_per_core(cluster)),
      fabric_(fabric_cost(cluster)) {}

// ---- groups --------------------------------------------------------------------------------

GroupCost DenseEstimator::group_cost(const core::DensePlan& plan,
                                     const std::vector<Axis>& axes) const {
  const std::vector<Rank> members = core::RankGrid(plan).group(Rank(0), axes);
  const auto placed = [&](Company company) {
    if (const auto where = placement_of(members, cluster_, company)) return *where;
    // Unequal numbers on its nodes: taken as equal, rounded up.
    std::set<int> nodes;
    for (const Rank rank : members) nodes.insert(cluster_.node_of(rank.value));
    GroupPlacement where;
    where.nodes = static_cast<int>(nodes.size());
    where.members_per_node = (static_cast<int>(members.size()) + where.nodes - 1) / where.nodes;
    where.users_per_card = where.users_per_node = where.members_per_node;
    return where;
  };
  return {placed(Company::Alone), placed(Company::WholeNodes)};
}

DenseEstimator::Groups DenseEstimator::groups_of(const core::DensePlan& plan) const {
  Groups groups;
  groups.tensor = group_cost(plan, {Axis::Tensor});
  groups.data = group_cost(plan, {Axis::Data});
  groups.sharding = group_cost(plan, {Axis::Sharding});
  groups.model = group_cost(plan, {Axis::Tensor, Axis::Pipeline, Axis::Sharding});
  groups.world = group_cost(plan, {Axis::Tensor, Axis::Pipeline, Axis::Sharding, Axis::Data});
  if (model_.tied_embeddings && plan.pipeline > 1) {
    const core::RankGrid grid(plan);
    const std::vector<Rank> ends = {Rank(0),
                                    grid.moved(Rank(0), Axis::Pipeline, plan.pipeline - 1)};
    const auto alone = placement_of(ends, cluster_, Company::Alone);
    const auto shared = placement_of(ends, cluster_, Company::WholeNodes);
    groups.tied = {*alone, *shared};
  }
  return groups;
}

Seconds DenseEstimator::collective(CollectiveKind kind, double bytes,
                                   const GroupCost& group) const {
  const auto method = choose_method(kind, Bytes(bytes), group.alone, fabric_);
  return collective_time(method, kind, Bytes(bytes), group.shared, fabric_);
}

Seconds DenseEstimator::message_time_between(const core::DensePlan& plan, int stage,
                                             Bytes bytes) const {
  const core::RankGrid grid(plan);
  const int stride = grid.moved(Rank(0), Axis::Pipeline, 1).value;
  // The last stage's chunks go on in the first one's.
  const int next = (stage + 1) % plan.pipeline;
  const int from = grid.moved(Rank(0), Axis::Pipeline, std::min(stage, next)).value;
  const int to = grid.moved(Rank(0), Axis::Pipeline, std::max(stage, next)).value;
  // Neighbouring ranks of the stage send at the same time, each to its own peer.
  const int last = std::min(to + stride, cluster_.devices()) - 1;
  const int node = cluster_.node_of(from);
  const int there = cluster_.node_of(last);
  const core::NodeType& type = cluster_.node_type(node);
  const int cards = std::max(1, std::min(type.network_cards, type.devices));
  const int users = std::min(stride, (type.devices + cards - 1) / cards);
  const bool same_leaf = fabric_.nodes_per_leaf == 0 ||
                         node / fabric_.nodes_per_leaf == there / fabric_.nodes_per_leaf;
  return message_time(bytes, node == there, same_leaf, node == there ? stride : users, fabric_);
}

// ---- stages --------------------------------------------------------------------------------

const StageProfile& DenseEstimator::profile(const core::DensePlan& plan, int chunk,
                                            const GroupCost& tensor) const {
  const StageQuestion question{.first = is_first(chunk),
                               .last = chunk == chunks_of(plan) - 1,
                               .tensor = plan.tensor,
                               .microbatch = plan.microbatch,
                               .recompute = plan.recompute,
                               .sequence_parallel = plan.sequence_parallel,
                               .split = core::splits_backward(plan.schedule),
                               .tensor_alone = tensor.alone,
                               .tensor_shared = tensor.shared};
  {
    const std::lock_guard lock(mutex_);
    const auto known = profiles_.find(question);
    if (known != profiles_.end()) return known->second;
  }
  const StageProfile result = profile_stage(question, model_, device_, fabric_, job_);
  const std::lock_guard lock(mutex_);
  return profiles_.try_emplace(question, result).first->second;
}

StageBuckets DenseEstimator::buckets(const core::DensePlan& plan, int stage) const {
  const BucketKey key{is_first(stage), is_last(plan, stage), plan.tensor, plan.sharding};
  const std::lock_guard lock(mutex_);
  const auto known = buckets_.find(key);
  if (known != buckets_.end()) return known->second;
  const core::StageParameters parameters = core::stage_parameters(
      model_, {{{0, 1}}, is_first(stage), is_last(plan, stage), plan.tensor, plan.sharding});
  StageBuckets result;
  std::size_t next = 0;
  if (parameters.has_embedding_bucket) result.embedding = parameters.buckets[next++].count;
  result.layer = parameters.buckets[next++].count;
  if (parameters.has_head_bucket) result.head = parameters.buckets[next].count;
  if (parameters.token_embedding) {
    result.tied = parameters.token_embedding->count;
  } else if (parameters.output_weight) {
    result.tied = parameters.output_weight->count;
  }
  return buckets_.try_emplace(key, result).first->second;
}

DenseEstimator::Stages DenseEstimator::passes_of(const core::DensePlan& plan,
                                                 const GroupCost& tensor) const {
  Stages stages;
  for (int c = 0; c < chunks_of(plan); ++c) {
    // Chunks between the first and the last are alike.
    const bool alike = c > 1 && c + 1 < chunks_of(plan);
    stages.profile.push_back(alike ? stages.profile.back() : &profile(plan, c, tensor));
    const StageProfile& one = *stages.profile.back();
    const int layers = plan.layers_per_stage[static_cast<std::size_t>(c)];
    stages.pipeline.forward.push_back(one.forward.makespan.at(layers) * ranks_per_core_);
    stages.pipeline.backward.push_back(one.backward.makespan.at(layers) * ranks_per_core_);
    stages.pipeline.weight_grad.push_back(one.weight_grad.makespan.at(layers) * ranks_per_core_);
    stages.pipeline.ahead.push_back(one.ahead * ranks_per_core_);
  }
  for (int s = 0; s < plan.pipeline; ++s) {
    const bool alike = s > 1 && !is_last(plan, s);
    stages.buckets.push_back(alike ? stages.buckets.back() : buckets(plan, s));
    stages.pipeline.begin.push_back(begin_time(stages.buckets.back().elements(layers_of(plan, s))));
  }
  return stages;
}

DenseEstimator::Stages DenseEstimator::stages_of(const core::DensePlan& plan,
                                                 const Groups& groups) const {
  Stages stages = passes_of(plan, groups.tensor);
  for (int c = 0; c + 1 < chunks_of(plan); ++c) {
    stages.pipeline.message.push_back(message_time_between(
        plan, c % plan.pipeline, stages.profile[static_cast<std::size_t>(c)]->message));
  }
  const int m = core::microbatches(plan, job_.global_batch);
  stages.finish = pipeline_finish(core::pipeline_shape(plan, m), stages.pipeline);
  stages.stage_finish = stage_finish(stages.finish, plan.pipeline);
  return stages;
}

Seconds DenseEstimator::begin_time(std::int64_t elements) const {
  // Gradients, loss, squared norm.
  return compute(core::Zero{elements}) + compute(core::Zero{1}) * 2;
}

Seconds DenseEstimator::passes_of_stage(const core::DensePlan& plan, const Stages& stages,
                                        int stage) const {
  Seconds sum;
  for (auto c = static_cast<std::size_t>(stage); c < stages.profile.size();
       c += static_cast<std::size_t>(plan.pipeline)) {
    sum +=
        stages.pipeline.forward[c] + stages.pipeline.backward[c] + stages.pipeline.weight_grad[c];
  }
  return sum;
}

Seconds DenseEstimator::lower_bound(const core::DensePlan& plan) const {
  const Stages stages = passes_of(plan, group_cost(plan, {Axis::Tensor}));
  // Each stage must run all its passes, and stage 0 waits for the first and the last of the others.
  Seconds once, slowest;
  for (std::size_t c = 0; c < stages.pipeline.forward.size(); ++c) {
    once += stages.pipeline.forward[c] + stages.pipeline.backward[c] - stages.pipeline.ahead[c];
  }
  for (int s = 0; s < plan.pipeline; ++s) {
    slowest = std::max(slowest, passes_of_stage(plan, stages, s));
  }
  const int m = core::microbatches(plan, job_.global_batch);
  return std::max(once, slowest * m);
}

std::vector<int> DenseEstimator::balanced_layers(const core::DensePlan& plan) const {
  const Stages stages = passes_of(plan, group_cost(plan, {Axis::Tensor}));
  std::vector<int> layers(static_cast<std::size_t>(chunks_of(plan)), 1);
  const auto load = [&](std::size_t s) { return stages.profile[s]->passes(layers[s]); };
  for (int left = model_.layers - chunks_of(plan); left > 0; --left) {
    std::size_t least = 0;
    for (std::size_t s = 1; s < layers.size(); ++s) {
      if (load(s) < load(least)) least = s;
    }
    ++layers[least];
  }
  return layers;
}

// ---- memory --------------------------------------------------------------------------------

DenseEstimator::Fullest DenseEstimator::fullest(const core::DensePlan& plan) const {
  const GroupCost tensor = group_cost(plan, {Axis::Tensor});
  Fullest most;
  for (int s = 0; s < plan.pipeline; ++s) {
    const MemoryByTerm memory = memory_of(plan, s, tensor);
    if (total(memory) > total(most.memory)) most = {s, memory};
  }
  return most;
}

MemoryByTerm DenseEstimator::memory_of(const core::DensePlan& plan, int stage,
                                       const GroupCost& tensor) const {
  std::vector<PassMemory> chunks;
  for (int c = stage; c < chunks_of(plan); c += plan.pipeline) {
    const int layers = plan.layers_per_stage[static_cast<std::size_t>(c)];
    chunks.push_back(profile(plan, c, tensor).memory(layers));
  }
  const std::int64_t elements = buckets(plan, stage).elements(layers_of(plan, stage));
  MemoryByTerm memory = persistent_memory(elements, plan.sharding, job_) +
                        peak_of_passes(chunks, moments(plan, stage));
  memory[static_cast<std::size_t>(MemoryTerm::Reserved)] += device_.reserved;
  return memory;
}

std::vector<PassMoment> DenseEstimator::moments(const core::DensePlan& plan, int stage) const {
  const auto shape = core::pipeline_shape(plan, core::microbatches(plan, job_.global_batch));
  const std::pair key{shape, stage};
  {
    const std::lock_guard lock(mutex_);
    const auto known = moments_.find(key);
    if (known != moments_.end()) return known->second;
  }
  const std::vector<PassMoment> result = fullest_moments(shape, stage);
  const std::lock_guard lock(mutex_);
  return moments_.try_emplace(key, result).first->second;
}

// ---- the estimate --------------------------------------------------------------------------

std::optional<Infeasible> DenseEstimator::does_not_fit(const core::DensePlan& plan) const {
  const auto [stage, memory] = fullest(plan);
  if (total(memory) <= device_.memory) return std::nullopt;
  return Infeasible{
      .reason = Infeasible::Reason::Memory,
      .why = fmt::format("stage {} needs {:.1f} GiB on each device, {} has {:.1f} GiB", stage,
                         total(memory).value / kGiB, device_.name, device_.memory.value / kGiB),
      .needed = total(memory),
      .available = device_.memory};
}

Estimate DenseEstimator::estimate(const core::DensePlan& plan) const {
  const Groups groups = groups_of(plan);
  const Stages stages = stages_of(plan, groups);
  Estimate result = add_up(plan, stages, end_of_step(plan, groups, stages));
  const Fullest most = fullest(plan);
  result.memory = most.memory;
  result.fullest_stage = most.stage;
  return result;
}

Estimate DenseEstimator::add_up(const core::DensePlan& plan, const Stages& stages,
                                const EndOfStep& end) const {
  const int m = core::microbatches(plan, job_.global_batch);
  const PipelineStages& pipeline = stages.pipeline;
  int slowest = 0;
  Seconds computing;  // Of all stages, per microbatch.
  const auto passes = [&](int s) { return passes_of_stage(plan, stages, s); };
  const auto sum_of = [&](int s, auto of_profile) {
    Seconds sum;
    for (int c = s; c < chunks_of(plan); c += plan.pipeline) {
      const auto chunk = static_cast<std::size_t>(c);
      sum += of_profile(*stages.profile[chunk], plan.layers_per_stage[chunk]);
    }
    return sum * ranks_per_core_;
  };
  const auto compute = [&](int s) {
    return sum_of(s, [](const StageProfile& one, int layers) {
      return one.forward.compute.at(layers) + one.backward.compute.at(layers) +
             one.weight_grad.compute.at(layers);
    });
  };
  for (int s = 0; s < plan.pipeline; ++s) {
    if (passes(s) > passes(slowest)) slowest = s;
    computing += compute(s);
  }
  PipelineStages free_messages = pipeline;
  for (Seconds& message : free_messages.message) message = Seconds(0);
  const auto finish = pipeline_finish(core::pipeline_shape(plan, m), free_messages);
  const Seconds without_messages = *std::max_element(finish.begin(), finish.end());
  const Seconds begin = pipeline.begin.front();
  const Seconds recompute =
      sum_of(slowest, [](const StageProfile& one,
                         int layers) { return one.backward.recompute.at(layers); }) *
      m;

  Estimate result;
  result.devices = plan.devices();
  result.microbatches = m;
  result.memory_available = device_.memory;
  result.step = stages.pipeline_time() + end.all;
  const auto term = [&](TimeTerm t) -> Seconds& {
    return result.time[static_cast<std::size_t>(t)];
  };
  term(TimeTerm::Compute) = compute(slowest) * m - recompute;
  term(TimeTerm::Recompute) = recompute;
  term(TimeTerm::TensorCommunication) = (passes(slowest) - compute(slowest)) * m;
  term(TimeTerm::PipelineBubble) = without_messages - begin - passes(slowest) * m;
  term(TimeTerm::PipelineCommunication) = stages.pipeline_time() - without_messages;
  term(TimeTerm::Optimizer) = begin + end.optimizer;
  term(TimeTerm::GradientCommunication) = end.all - end.optimizer;
  result.speed_of_one =
      job_.global_batch / (computing * (1.0 * m * plan.tensor * plan.data_ways())).value;
  result.mfu = model_flops_per_token(model_, job_.sequence) * job_.global_batch * job_.sequence /
               (matrix_peak(device_, job_.precision) * result.step * result.devices).value;
  result.tokens_per_second = job_.global_batch * job_.sequence / result.step.value;
  add_rates(result, device_, job_);
  result.speed_of_one *= job_.sequence;
  return result;
}

void add_rates(Estimate& estimate, const core::Device& device, const core::Job& job) {
  const auto share = [&](TimeTerm t) {
    return estimate.time[static_cast<std::size_t>(t)] / estimate.step;
  };
  estimate.samples_per_second = job.global_batch / estimate.step.value;
  estimate.bubble_share = share(TimeTerm::PipelineBubble);
  estimate.communication_share =
      share(TimeTerm::TensorCommunication) + share(TimeTerm::PipelineCommunication) +
      share(TimeTerm::GradientCommunication) + share(TimeTerm::ParameterServer);
  estimate.scaling_efficiency =
      estimate.samples_per_second / (estimate.speed_of_one * estimate.devices);
  constexpr double kSecondsPerHour = 3600.0;
  if (device.price_per_hour) {
    estimate.dollars_per_step =
        *device.price_per_hour * estimate.devices * estimate.step.value / kSecondsPerHour;
  }
  if (device.power_watts) {
    estimate.joules_per_step = *device.power_watts * estimate.devices * estimate.step.value;
  }
}

}  // namespace orrery::costmodel
