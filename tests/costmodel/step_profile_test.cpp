// The end of a step read off a stage of few layers and few ranks, against the stage lowered as it is.

#include "costmodel/step_profile.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "core/lowering/pipeline_schedule.h"
#include "costmodel/compute_cost.h"
#include "tests/costmodel/small_inputs.h"

namespace orrery::costmodel {
namespace {

/// Data ways that share nothing, some, and all, with what else changes the end of a step.
std::vector<core::DensePlan> plans() {
  std::vector<core::DensePlan> all;
  for (const int tensor : {1, 2, 4}) {
    for (const bool sequence_parallel : {false, true}) {
      if (sequence_parallel && tensor == 1) continue;
      for (const auto schedule :
           {core::PipelineSchedule::OneFOneB, core::PipelineSchedule::ZeroBubbleH1}) {
        core::DensePlan plan;
        plan.tensor = tensor;
        plan.sequence_parallel = sequence_parallel;
        plan.schedule = schedule;
        for (const auto& [data, sharding, stage] : std::vector<std::array<int, 3>>{
                 {1, 1, 0}, {4, 1, 0}, {1, 4, 1}, {2, 3, 1}, {1, 8, 2}, {2, 4, 3}}) {
          if (stage > 1 && schedule == core::PipelineSchedule::ZeroBubbleH1) continue;
          plan.data = data;
          plan.sharding = sharding;
          plan.sharding_stage = stage;
          all.push_back(plan);
          plan.bucket = core::Bytes(300e3);
          all.push_back(plan);
          plan.bucket.reset();
        }
      }
    }
  }
  return all;
}

/// The same for a model with experts: on every rank, along their axis, over tensor ranks whole or in
/// parts.
std::vector<core::DensePlan> plans_of_experts() {
  std::vector<core::DensePlan> all;
  for (core::DensePlan plan : plans()) {
    plan.axis_order.insert(plan.axis_order.begin() + 1, core::Axis::Expert);
    for (const int expert : {1, 2}) {
      plan.expert = expert;
      plan.expert_tensor = plan.tensor;
      all.push_back(plan);
      // Expert ranks alone share what is no expert's.
      for (int stage = 1; stage <= 3 && expert > 1 && plan.sharding == 1; ++stage) {
        core::DensePlan shared = plan;
        shared.sharding_stage = stage;
        if (stage == 1 || !core::splits_backward(plan.schedule)) all.push_back(shared);
      }
      if (!plan.sequence_parallel || expert * plan.tensor > 4) continue;
      plan.expert_tensor = 1;
      all.push_back(plan);
    }
  }
  return all;
}

/// In words: where it runs, how long, what it waits for.
std::string described(const EndBlock& block, const StepProfile& step, std::size_t i) {
  const EndInstruction& instruction = block.instructions[i];
  std::string text = std::to_string(static_cast<int>(instruction.stream)) + " " +
                     fmt::format("{}", step.durations[instruction.line].value) +
                     (instruction.after_passes ? " after passes, waits" : " waits");
  for (std::size_t w = i == 0 ? 0 : block.instructions[i - 1].waits_end; w < instruction.waits_end;
       ++w) {
    text += " " + std::to_string(block.waits[w]);
  }
  for (std::size_t g = i == 0 ? 0 : block.instructions[i - 1].gradients_end;
       g < instruction.gradients_end; ++g) {
    const StagePart part = block.gradients[g];
    text +=
        " part " + std::to_string(static_cast<int>(part.kind)) + " " + std::to_string(part.layer);
  }
  return text;
}

// A stage of 9 layers, whose block is that of few layers with its middle ones repeated, and the block
// that 9 layers are lowered to; for numbers of ranks that the structure was not lowered with.
TEST(StepProfile, IsThatOfTheStageLoweredInFull) {
  constexpr int kLayers = 9;
  const core::Job job = small_job();
  for (const core::Transformer& transformer : {small_gpt2(), small_llama(), small_mixtral()}) {
    const core::Model model{"small", transformer, std::nullopt};
    const bool experts = transformer.experts > 1;
    for (const core::DensePlan& plan : experts ? plans_of_experts() : plans()) {
      const core::Cluster cluster = cpu_cluster(plan.devices() * 2);
      const core::Device& device = cluster.node_type(0).device;
      core::DensePlan placed = plan;  // In two stages, so that all groups are there.
      placed.pipeline = 2;
      const PlanGroups groups = GroupCosts(cluster).of(placed, experts);
      const FabricCost fabric = fabric_cost(cluster);
      for (const StagePlace ends :
           {StagePlace{true, true}, {true, false}, {false, false}, {false, true}}) {
        const core::DensePlan structure = step_structure_alone(plan);
        const core::DensePlan sizes = step_sizes_alone(plan);
        // A bucket of a byte is one of a layer, and lowered in full.
        core::DensePlan in_full = sizes;
        if (!in_full.bucket) in_full.bucket = core::Bytes(1);
        const EndBlock made = StepOutline(structure, ends, kLayers, model, job).block(kLayers);
        const StepProfile a = StepSizes(sizes, ends, kLayers, model, device, job)
                                  .profile(kLayers, made, groups, fabric);
        const StepSizes full_sizes(in_full, ends, kLayers, model, device, job);
        in_full.schedule = plan.schedule;
        const EndBlock full = StepOutline(in_full, ends, kLayers, model, job).block(kLayers);
        const StepProfile b = full_sizes.profile(kLayers, full, groups, fabric);
        EXPECT_NEAR(a.begin.value / b.begin.value, 1.0, 1e-12);
        EXPECT_EQ(a.persistent, b.persistent);
        ASSERT_EQ(made.instructions.size(), full.instructions.size());
        for (std::size_t i = 0; i < made.instructions.size(); ++i) {
          EXPECT_EQ(described(made, a, i), described(full, b, i))
              << "instruction " << i << " of data " << plan.data << " sharding " << plan.sharding
              << " stage " << plan.sharding_stage << " expert " << plan.expert << " tensor "
              << plan.tensor;
        }
      }
    }
  }
}

}  // namespace
}  // namespace orrery::costmodel
