#include "core/lowering/lowering.h"

#include <map>
#include <utility>

#include "core/check/plan_check.h"
#include "core/error.h"
#include "core/lowering/decoder_stage.h"
#include "core/lowering/dependencies.h"
#include "core/lowering/lowering_sparse.h"
#include "core/lowering/message_bounds.h"
#include "core/lowering/pipeline_schedule.h"
#include "core/lowering/rank_grid.h"

namespace orrery::core {
namespace {

class DenseLowering {
 public:
  DenseLowering(const Plan& plan, const Model& model, const Job& job)
      : name_(describe(plan)),
        model_name_(model.name),
        model_(*model.transformer),
        plan_(*plan.dense),
        job_(job),
        grid_(plan_),
        slots_(dense_groups(plan_, model_.experts > 1)),
        ties_stages_(model_.tied_embeddings && plan_.pipeline > 1) {}

  Program lower() {
    program_.plan = name_;
    program_.model = model_name_;
    program_.microbatches = microbatches(plan_, job_.global_batch);
    const auto passes = pipeline_passes(pipeline_shape(plan_, program_.microbatches));
    for (int stage = 0; stage < plan_.pipeline; ++stage) {
      program_.roles.push_back(stage_role(stage, passes[static_cast<std::size_t>(stage)]));
    }
    for (int r = 0; r < grid_.ranks(); ++r) program_.ranks.push_back(binding(Rank(r)));
    return std::move(program_);
  }

  Role lower_stage(int stage) const {
    const int count = microbatches(plan_, job_.global_batch);
    const auto passes = pipeline_passes(pipeline_shape(plan_, count));
    return stage_role(stage, passes[static_cast<std::size_t>(stage)]);
  }

  Role lower_step(int stage) const {
    Role role = named_role(stage);
    const DecoderStage lowered = stage_of(role, stage);
    role.blocks = {lowered.begin(), lowered.step()};
    return role;
  }

  Role lower_stage_like(const Role& twin, int stage) const {
    Role role = stage_blocks(stage);
    role.step = twin.step;
    for (std::size_t b = 0; b < role.blocks.size(); ++b) {
      std::vector<Instruction>& instructions = role.blocks[b].instructions;
      const std::vector<Instruction>& twins = twin.blocks[b].instructions;
      ORRERY_CHECK(instructions.size() == twins.size(), "a twin of another shape");
      for (std::size_t i = 0; i < twins.size(); ++i) {
        instructions[i].waits = twins[i].waits;
        instructions[i].frees = twins[i].frees;
      }
    }
    return role;
  }

 private:
  bool first(int stage) const { return stage == 0; }
  bool last(int stage) const { return stage == plan_.pipeline - 1; }
  // With several chunks per stage, the last stage's chunks go on in the first one's.
  bool receives(int stage) const { return !first(stage) || plan_.virtual_stages > 1; }
  bool sends(int stage) const { return !last(stage) || plan_.virtual_stages > 1; }
  bool rings() const { return plan_.context > 1 && plan_.context_method == ContextMethod::Ring; }
  bool tied(int stage) const { return ties_stages_ && (first(stage) || last(stage)); }

  StageSlots stage_slots(int stage, Role& role) const {
    StageSlots result;
    for (const DenseGroup& use : slots_) {
      const GroupSlot slot(role.group_slots.size());
      role.group_slots.push_back(use.kind);
      if (use.kind == GroupKind::Tensor) result.tensor = slot;
      if (use.kind == GroupKind::Context) result.context = slot;
      if (use.kind == GroupKind::Expert) result.expert = slot;
      if (use.kind == GroupKind::Sharding) result.sharding = slot;
      if (use.kind == GroupKind::Data) result.data = slot;
      if (use.kind == GroupKind::ExpertSharding) result.expert_sharding = slot;
      if (use.kind == GroupKind::ExpertData) result.expert_data = slot;
      if (use.kind == GroupKind::Model) result.model = slot;
      if (use.kind == GroupKind::World) result.world = slot;
    }
    if (tied(stage)) {
      result.tied_embedding = GroupSlot(role.group_slots.size());
      role.group_slots.push_back(GroupKind::TiedEmbedding);
    }
    if (rings()) {
      result.ring_previous = PeerSlot(role.peer_slots++);
      result.ring_next = PeerSlot(role.peer_slots++);
    }
    if (receives(stage)) result.previous = PeerSlot(role.peer_slots++);
    if (sends(stage)) result.next = PeerSlot(role.peer_slots++);
    return result;
  }

  /// Every pipeline-th stretch of layers, from the stage's own on.
  StageSlice slice(int stage) const {
    StageSlice result;
    result.first = first(stage);
    result.last = last(stage);
    result.tensor_ways = plan_.tensor;
    result.sharding_ways = plan_.shared_sharding();
    result.expert_sharding_ways = plan_.sharding;
    result.expert_ways = plan_.expert_ways();
    result.expert_tensor_ways = plan_.expert_tensor;
    int next = 0;
    for (int i = 0; i < static_cast<int>(plan_.layers_per_stage.size()); ++i) {
      const int count = plan_.layers_per_stage[static_cast<std::size_t>(i)];
      if (i % plan_.pipeline == stage) result.chunks.push_back({next, count});
      next += count;
    }
    return result;
  }

  static Role named_role(int stage) {
    Role role;
    role.name = "stage " + std::to_string(stage);
    return role;
  }

  /// Adds a stage's slots, buffers and parameters to its role.
  DecoderStage stage_of(Role& role, int stage) const {
    const StageSlots slots = stage_slots(stage, role);
    return {model_, plan_, job_, slice(stage), slots, role};
  }

  /// Blocks: begin; forward and backward (or its two halves) of each chunk; step.
  Role stage_blocks(int stage) const {
    Role role = named_role(stage);
    const DecoderStage lowered = stage_of(role, stage);
    role.blocks = {lowered.begin()};
    for (int chunk = 0; chunk < plan_.virtual_stages; ++chunk) {
      role.blocks.push_back(lowered.forward(chunk));
      role.blocks.push_back(lowered.backward(chunk));
      if (splits_backward(plan_.schedule)) role.blocks.push_back(lowered.weight_grad(chunk));
    }
    role.blocks.push_back(lowered.step());
    return role;
  }

  Role stage_role(int stage, const std::vector<StagePass>& passes) const {
    Role role = stage_blocks(stage);
    const std::size_t kinds = splits_backward(plan_.schedule) ? 3 : 2;
    role.step.push_back({BlockId(0), std::nullopt, {}});
    for (const StagePass& pass : passes) {
      const std::size_t block = 1 + kinds * static_cast<std::size_t>(pass.chunk) + place(pass.kind);
      role.step.push_back({BlockId(block), pass.microbatch, {}});
    }
    role.step.push_back({BlockId(role.blocks.size() - 1), std::nullopt, {}});
    add_frees(role);
    add_dependencies(role);
    bound_messages(role);
    return role;
  }

  /// Of a pass's block among those of its chunk.
  static std::size_t place(PassKind kind) {
    switch (kind) {
      case PassKind::Forward:
        return 0;
      case PassKind::Backward:
      case PassKind::InputGrad:
        return 1;
      case PassKind::WeightGrad:
        return 2;
    }
    ORRERY_CHECK(false, "unknown PassKind");
  }

  RankBinding binding(Rank rank) {
    RankBinding result;
    result.stage = grid_.coordinate(rank, Axis::Pipeline);
    result.role = RoleId(result.stage);
    result.data_way = grid_.data_way(rank);
    for (const DenseGroup& use : slots_) result.groups.push_back(group(rank, use.kind, use.axes));
    if (tied(result.stage)) result.groups.push_back(tied_group(rank));
    const int p = plan_.pipeline;
    if (rings()) {
      const int c = plan_.context;
      const int place = grid_.coordinate(rank, Axis::Context);
      result.peers.push_back(grid_.moved(rank, Axis::Context, (place + c - 1) % c));
      result.peers.push_back(grid_.moved(rank, Axis::Context, (place + 1) % c));
    }
    if (receives(result.stage)) {
      result.peers.push_back(grid_.moved(rank, Axis::Pipeline, (result.stage + p - 1) % p));
    }
    if (sends(result.stage)) {
      result.peers.push_back(grid_.moved(rank, Axis::Pipeline, (result.stage + 1) % p));
    }
    return result;
  }

  GroupId group(Rank rank, GroupKind kind, const std::vector<Axis>& axes) {
    Rank leader = rank;
    for (const Axis axis : axes) leader = grid_.moved(leader, axis, 0);
    return find_or_add(kind, leader, [&] { return grid_.group(leader, axes); });
  }

  GroupId tied_group(Rank rank) {
    const Rank leader = grid_.moved(rank, Axis::Pipeline, 0);
    return find_or_add(GroupKind::TiedEmbedding, leader, [&] {
      return std::vector{leader, grid_.moved(rank, Axis::Pipeline, plan_.pipeline - 1)};
    });
  }

  template <class Members>
  GroupId find_or_add(GroupKind kind, Rank leader, Members members) {
    const auto [found, added] = group_of_.try_emplace({kind, leader}, program_.groups.size());
    if (added) program_.groups.push_back({kind, members()});
    return found->second;
  }

  std::string name_;
  std::string model_name_;
  const Transformer& model_;
  const DensePlan& plan_;
  const Job& job_;
  RankGrid grid_;
  std::vector<DenseGroup> slots_;
  bool ties_stages_;
  Program program_;
  std::map<std::pair<GroupKind, Rank>, GroupId> group_of_;
};

}  // namespace

Program lower(const Plan& plan, const Model& model, const Cluster& cluster, const Job& job) {
  if (const auto reason = why_invalid(plan, model, job, cluster.devices())) {
    throw ConfigError(*reason);
  }
  if (plan.sparse) return lower_sparse(plan, model, cluster, job);
  return DenseLowering(plan, model, job).lower();
}

Role lower_stage(const Plan& plan, const Model& model, const Job& job, int stage) {
  return DenseLowering(plan, model, job).lower_stage(stage);
}

Role lower_step(const Plan& plan, const Model& model, const Job& job, int stage) {
  return DenseLowering(plan, model, job).lower_step(stage);
}

Role lower_stage_like(const Role& twin, const Plan& plan, const Model& model, const Job& job,
                      int stage) {
  return DenseLowering(plan, model, job).lower_stage_like(twin, stage);
}

}  // namespace orrery::core
