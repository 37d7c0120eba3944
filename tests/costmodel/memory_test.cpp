#include "costmodel/memory.h"

#include <gtest/gtest.h>

#include <map>
#include <tuple>
#include <vector>

#include "core/check/memory_profile.h"
#include "core/lowering/lowering.h"
#include "core/lowering/pipeline_schedule.h"
#include "costmodel/stage_profile.h"
#include "costmodel/step_profile.h"
#include "tests/costmodel/small_inputs.h"

namespace orrery::costmodel {
namespace {

/// What a stage holds throughout, with the layers of all its chunks.
MemoryByTerm persistent(const core::DensePlan& plan, int stage, const core::Cluster& cluster,
                        const core::Model& model, const core::Job& job) {
  int layers = 0;
  for (std::size_t c = static_cast<std::size_t>(stage); c < plan.layers_per_stage.size();
       c += static_cast<std::size_t>(plan.pipeline)) {
    layers += plan.layers_per_stage[c];
  }
  const StagePlace ends{stage == 0, stage == plan.pipeline - 1};
  const StepSizes sizes(step_sizes_alone(plan), ends, layers, model, cluster.node_type(0).device,
                        job);
  const StepOutline outline(step_structure_alone(plan), ends, layers, model, job);
  return sizes
      .profile(layers, outline.block(layers), GroupCosts(cluster).of(plan), fabric_cost(cluster))
      .persistent;
}

MemoryByTerm predicted(const core::DensePlan& plan, const core::Model& model, const core::Job& job,
                       int stage) {
  const core::Cluster cluster = cpu_cluster(plan.devices());
  const int all = plan.pipeline * plan.virtual_stages;
  // By kind: chunks between the first and the last of the model cost the same if they have as many
  // layers.
  std::map<std::tuple<bool, bool, int>, std::size_t> known;
  std::vector<PassMemory> memory;
  ChunkKinds kinds;
  for (int chunk = stage; chunk < all; chunk += plan.pipeline) {
    const StagePlace place{chunk == 0, chunk == all - 1};
    const int layers = plan.layers_per_stage[static_cast<std::size_t>(chunk)];
    const auto [kind, added] = known.try_emplace({place.first, place.last, layers}, known.size());
    kinds.push_back(kind->second);
    if (!added) continue;
    const PassStructure structure(passes_structure_alone(plan), place, model, job);
    const StagePasses passes(passes_alone(plan), place, structure, model, job,
                             cluster.node_type(0).device);
    memory.push_back(passes.memory(plan.microbatch).at(layers));
  }
  std::vector<const PassMemory*> chunks;
  for (const PassMemory& chunk : memory) chunks.push_back(&chunk);
  const auto shape = core::pipeline_shape(plan, core::microbatches(plan, job.global_batch));
  return persistent(plan, stage, cluster, model, job) +
         peak_of_passes(chunks, fullest_moments(shape, stage, kinds));
}

/// Plans that split activations further than small_plans.
std::vector<core::Plan> plans_of_all_axes(int layers) {
  std::vector<core::Plan> plans = small_plans(layers);
  const std::vector<core::Plan> basic = plans;
  for (std::size_t i = 0; i < basic.size(); i += 3) {
    core::Plan plan = basic[i];
    plan.dense->sequence_parallel = plan.dense->tensor > 1;
    if (plan.dense->sequence_parallel) plans.push_back(plan);
    if (plan.dense->sharding > 1 && !core::splits_backward(plan.dense->schedule)) {
      for (const int stage : {2, 3}) {
        plans.push_back(plan);
        plans.back().dense->sharding_stage = stage;
        // Of two and a half layers of small_gpt2(): stages join two or three at a time.
        if (plan.dense->virtual_stages > 1) continue;
        plans.push_back(plans.back());
        plans.back().dense->bucket = core::Bytes(500e3 / plan.dense->tensor);
      }
    }
    plan.dense->attention = core::AttentionKind::Plain;
    plans.push_back(plan);
    if (core::splits_backward(plan.dense->schedule)) continue;  // It recomputes nothing.
    if (plan.dense->recompute == core::Recompute::Full && plan.dense->virtual_stages == 1 &&
        plan.dense->layers_per_stage[0] > 1) {
      plans.push_back(plan);
      plans.back().dense->recompute_layers = 1;
    }
    plan.dense->recompute = core::Recompute::Selective;
    plans.push_back(plan);
  }
  return plans;
}

// For every stage of plans over all axes, both schedules, recompute, and few and many microbatches,
// the closed form is the peak of the lowered role.
TEST(Memory, EqualsTheProfileOfTheLoweredRole) {
  int compared = 0;
  for (const core::Transformer& transformer : {small_gpt2(), small_llama()}) {
    for (const core::DType precision : {core::DType::Float32, core::DType::BFloat16}) {
      for (const core::Plan& plan : plans_of_all_axes(transformer.layers)) {
        core::Job job = small_job();
        job.precision = precision;
        const core::Model model{"small", transformer, std::nullopt};
        const core::Program program = core::lower(plan, model, cpu_cluster(plan.devices()), job);
        for (std::size_t stage = 0; stage < program.roles.size(); ++stage) {
          const core::Role& role = program.roles[stage];
          const double exact = core::memory_profile(role).peak.value;
          const double closed =
              total(predicted(*plan.dense, model, job, static_cast<int>(stage))).value;
          EXPECT_DOUBLE_EQ(closed, exact) << core::describe(plan) << " stage " << stage;
          ++compared;
        }
      }
    }
  }
  EXPECT_GT(compared, 200);
}

// Weights 2, gradients 4, master and moments 12 / sharding bytes per parameter; 16 bytes of
// scalars.
TEST(Memory, MixedPrecisionIsSixPlusTwelveOverShardingBytesPerParameter) {
  const core::Model model{"small", small_llama(), std::nullopt};
  const auto persistent = [&](int sharding, core::DType precision) {
    core::DensePlan plan;
    plan.sharding = sharding;
    plan.sharding_stage = sharding > 1 ? 1 : 0;
    core::Job job = small_job();
    job.precision = precision;
    return total(run_memory(lowered_stage(plan, {}, 8, model, job))).value;
  };
  const auto n = static_cast<double>(core::parameter_count(*model.transformer));
  EXPECT_DOUBLE_EQ(persistent(4, core::DType::BFloat16), n * (2 + 4 + 12.0 / 4) + 16);
  EXPECT_DOUBLE_EQ(persistent(1, core::DType::Float32), n * (4 + 4 + 8) + 16);
}

// Gradients kept in the job's own half precision: 2 bytes of a parameter instead of 4, in the buffer and
// in the all-reduce over the data ways.
TEST(Memory, GradientsInHalfPrecisionAreHalf) {
  const core::Model model{"small", small_llama(), std::nullopt};
  core::DensePlan plan;
  plan.data = 2;
  const auto in = [&](core::DType precision) {
    core::Job job = small_job();
    job.precision = core::DType::BFloat16;
    job.gradient_precision = precision;
    return lowered_stage(plan, {}, 8, model, job);
  };
  const auto gradients = [](const core::Role& role) {
    return run_memory(role)[static_cast<std::size_t>(MemoryTerm::Gradients)].value;
  };
  const auto reduced = [](const core::Role& role) {
    double sum = 0;
    for (const core::Instruction& i : role.blocks[role.step.back().block.index()].instructions) {
      const auto* collective = std::get_if<core::Collective>(&i.operation);
      if (collective == nullptr) continue;
      const auto kind = role.group_slots[collective->group.index()];
      if (kind == core::GroupKind::Data) sum += collective->bytes.value;
    }
    return sum;
  };
  const auto n = static_cast<double>(core::parameter_count(*model.transformer));
  EXPECT_DOUBLE_EQ(gradients(in(core::DType::Float32)), 4 * n);
  EXPECT_DOUBLE_EQ(gradients(in(core::DType::BFloat16)), 2 * n);
  EXPECT_DOUBLE_EQ(reduced(in(core::DType::Float32)), 4 * n);
  EXPECT_DOUBLE_EQ(reduced(in(core::DType::BFloat16)), 2 * n);
}

// Korthikanti et al., arXiv 2205.05198, give s·b·h·(10 + 24/t) bytes per layer in half precision
// for a GPT layer without the 5as/h term (memory-linear attention keeps no scores). Of it, 2 bytes
// each: dropout masks aside (1 byte each: 2·sbh, not kept here), per token
//   ours      input h, norm1 h, qkv 3h/t, attention h/t, middle h, norm2 h, up 4h/t, activated 4h/t
//             = 2·(4h + 12h/t) = h·(8 + 24/t)
//   theirs    h·(10 + 24/t), of it 2·1 byte of dropout masks
// so ours is theirs less the masks, but for the statistics: 2·2·4 bytes of means and deviations and
// 4·heads/t of log-sum-exp per token.
TEST(Memory, SavedActivationsFollowKorthikanti) {
  core::Transformer model = small_gpt2();
  model.hidden = 1024;
  model.heads = model.kv_heads = 16;
  model.head_dim = 64;
  model.ffn = 4096;
  core::Job job = small_job();
  job.precision = core::DType::BFloat16;
  for (const int t : {1, 2, 4, 8}) {
    for (const auto recompute : {core::Recompute::None, core::Recompute::Full}) {
      core::DensePlan plan;
      plan.tensor = t;
      plan.microbatch = 2;
      plan.recompute = recompute;
      const core::Cluster cluster = cpu_cluster(8);
      const core::Model named{"small", model, std::nullopt};
      const StagePlace place = {false, false};
      const PassStructure structure(passes_structure_alone(plan), place, named, job);
      const StagePasses passes(passes_alone(plan), place, structure, named, job,
                               cluster.node_type(0).device);
      const StageMemory memory = passes.memory(plan.microbatch);
      const double tokens = 2.0 * job.sequence;
      const double h = 1024;
      const double expected =
          recompute == core::Recompute::Full
              ? 2 * tokens * h  // Only the layer's input: 2sbh.
              : tokens * h * (10 + 24.0 / t) - 2 * tokens * h + tokens * (2 * 2 * 4 + 4 * 16.0 / t);
      EXPECT_DOUBLE_EQ(total(memory.per_layer.saved).value, expected) << t;
    }
  }
}

}  // namespace
}  // namespace orrery::costmodel
