#include "core/lowering/lowering.h"

#include <gtest/gtest.h>

#include "core/check/memory_profile.h"
#include "core/check/program_check.h"
#include "core/error.h"

namespace orrery::core {
namespace {

Model small_gpt2() {
  Transformer t;
  t.family = ModelFamily::Gpt2;
  t.layers = 4;
  t.hidden = 64;
  t.heads = t.kv_heads = 4;
  t.head_dim = 16;
  t.ffn = 256;
  t.vocab = 250;  // Not a multiple of 4: the last tensor rank holds padding.
  t.max_positions = 32;
  t.qkv_bias = t.linear_bias = t.tied_embeddings = true;
  return {"small", t, std::nullopt};
}

Job small_job() {
  Job job;
  job.sequence = 32;
  job.global_batch = 8;
  job.clip_norm = 1.0;
  job.steps = 1;
  return job;
}

Cluster cpus(int ranks) {
  NodeType node;
  node.devices = ranks;
  node.cores = 2;
  return {"cpus", {{node, 1}}, {}, {}};
}

Plan plan_of(int data, int sharding, int tensor, int pipeline, PipelineSchedule schedule,
             Recompute recompute) {
  DensePlan dense;
  dense.data = data;
  dense.sharding = sharding;
  dense.sharding_stage = sharding > 1 ? 1 : 0;
  dense.tensor = tensor;
  dense.pipeline = pipeline;
  dense.layers_per_stage = std::vector<int>(static_cast<std::size_t>(pipeline), 4 / pipeline);
  dense.schedule = schedule;
  dense.recompute = recompute;
  Plan plan;
  plan.dense = dense;
  return plan;
}

struct Case {
  int data, sharding, tensor, pipeline;
};

std::vector<Plan> sample_plans() {
  std::vector<Plan> plans;
  for (const Case c : {Case{1, 1, 1, 1}, Case{2, 1, 1, 1}, Case{1, 2, 1, 1}, Case{1, 1, 4, 1},
                       Case{1, 1, 1, 4}, Case{2, 1, 2, 2}, Case{1, 2, 2, 2}, Case{2, 2, 1, 2}}) {
    for (const auto schedule : {PipelineSchedule::GPipe, PipelineSchedule::OneFOneB}) {
      for (const auto recompute : {Recompute::None, Recompute::Full}) {
        plans.push_back(plan_of(c.data, c.sharding, c.tensor, c.pipeline, schedule, recompute));
      }
    }
  }
  return plans;
}

Program lowered(const Plan& plan) {
  return lower(plan, small_gpt2(), cpus(plan.devices()), small_job());
}

TEST(Lowering, EveryPlanIsSound) {
  for (const Plan& plan : sample_plans()) {
    const auto faults = check_program(lowered(plan));
    EXPECT_TRUE(faults.empty()) << describe(plan) << ": " << faults.front();
  }
}

TEST(Lowering, NoNumberOfStagesAndMicrobatchesWaitsInACircle) {
  Model model = small_gpt2();
  for (int stages = 2; stages <= 7; ++stages) {
    for (int microbatches = 1; microbatches <= 10; ++microbatches) {
      for (const auto schedule : {PipelineSchedule::GPipe, PipelineSchedule::OneFOneB,
                                  PipelineSchedule::Interleaved, PipelineSchedule::ZeroBubbleH1,
                                  PipelineSchedule::ZeroBubble1p, PipelineSchedule::ZeroBubble2p}) {
        Plan plan = plan_of(1, 1, 1, stages, schedule, Recompute::None);
        const bool interleaved = schedule == PipelineSchedule::Interleaved;
        if (interleaved && microbatches % stages != 0) continue;
        plan.dense->virtual_stages = interleaved ? 3 : 1;
        model.transformer->layers = stages * plan.dense->virtual_stages;
        plan.dense->layers_per_stage.assign(static_cast<std::size_t>(model.transformer->layers), 1);
        if (schedule == PipelineSchedule::ZeroBubble1p ||
            schedule == PipelineSchedule::ZeroBubble2p) {
          plan.dense->pass_times =
              PassTimes{Seconds(3), Seconds(2.0 + microbatches % 3), Seconds(1.5), Seconds(0.1)};
        }
        Job job = small_job();
        job.global_batch = microbatches;
        const auto faults = check_program(lower(plan, model, cpus(stages), job));
        EXPECT_TRUE(faults.empty())
            << stages << " stages, " << microbatches << " microbatches: " << faults.front();
      }
    }
  }
}

TEST(Lowering, SharedParametersOfAllRolesAddUpToTheModel) {
  const Model model = small_gpt2();
  for (const Plan& plan : sample_plans()) {
    if (plan.dense->tensor > 1) continue;
    const Program program = lowered(plan);
    std::int64_t elements = 0;
    for (const Role& role : program.roles) {
      for (const ParameterTensor& tensor : role.parameters.tensors) {
        if (tensor.counted == Counted::Never) continue;
        std::int64_t count = 1;
        for (const std::int64_t n : tensor.local_shape) count *= n;
        elements += count;
      }
    }
    EXPECT_EQ(elements, parameter_count(*model.transformer)) << describe(plan);
  }
}

// Without parallelism a step's matrix products are 6 flops per weight and token (2 forward, 4
// backward) plus attention's; the tied output layer counts, the embedding look-up does not:
// weights = 4 layers · 12·64² + 250·64 (vocabulary), tokens = 8 · 32.
TEST(Lowering, MatrixWorkIsSixFlopsPerWeightAndToken) {
  const Program program = lowered(plan_of(1, 1, 1, 1, PipelineSchedule::GPipe, Recompute::None));
  Flops linear;
  for (const Call& call : program.roles[0].step) {
    for (const Instruction& i : program.roles[0].blocks[call.block.index()].instructions) {
      const auto* compute = std::get_if<Compute>(&i.operation);
      if (compute != nullptr && !matmuls_of(compute->op).empty()) {
        for (const MatmulShape& s : matmuls_of(compute->op)) {
          linear += Flops(2.0 * static_cast<double>(s.m * s.n * s.k));
        }
      }
    }
  }
  EXPECT_DOUBLE_EQ(linear.value, 6.0 * (4 * 12 * 64 * 64 + 250 * 64) * 8 * 32);
}

TEST(Lowering, ADeletedDependencyIsFound) {
  for (const Plan& plan : sample_plans()) {
    const Program whole_program = lowered(plan);
    for (std::size_t r = 0; r < whole_program.roles.size(); ++r) {
      const Role& role = whole_program.roles[r];
      for (std::size_t b = 0; b < role.blocks.size(); ++b) {
        for (std::size_t i = 0; i < role.blocks[b].instructions.size(); ++i) {
          for (std::size_t w = 0; w < role.blocks[b].instructions[i].waits.size(); ++w) {
            Program broken = whole_program;
            auto& waits = broken.roles[r].blocks[b].instructions[i].waits;
            waits.erase(waits.begin() + static_cast<std::ptrdiff_t>(w));
            EXPECT_FALSE(check_program(broken).empty())
                << describe(plan) << ' ' << role.name << ' ' << role.blocks[b].name << ' ' << i;
          }
        }
      }
    }
    if (plan.devices() >= 4) break;  // The rest repeats the same kinds of waits.
  }
}

TEST(Lowering, ActivationMemoryFallsWithRecomputation) {
  for (const int pipeline : {1, 2, 4}) {
    const auto peak = [&](Recompute recompute) {
      const Program program =
          lowered(plan_of(1, 1, 1, pipeline, PipelineSchedule::OneFOneB, recompute));
      return memory_profile(program.roles[0]).peak;
    };
    EXPECT_LT(peak(Recompute::Full), peak(Recompute::None)) << pipeline << " stages";
  }
}

// GPipe holds all 8 microbatches; 1F1B's first of two stages holds 2.
TEST(Lowering, OneFOneBHoldsFewerMicrobatchesThanGPipe) {
  const auto peak = [](PipelineSchedule schedule) {
    return memory_profile(lowered(plan_of(1, 1, 1, 2, schedule, Recompute::None)).roles[0]).peak;
  };
  EXPECT_LT(peak(PipelineSchedule::OneFOneB), peak(PipelineSchedule::GPipe));
}

TEST(Lowering, AMissingMemberOrAnUnequalMessageIsFound) {
  Program program = lowered(plan_of(2, 1, 1, 2, PipelineSchedule::OneFOneB, Recompute::None));
  for (Instruction& i : program.roles[1].blocks[1].instructions) {
    if (auto* receive = std::get_if<Receive>(&i.operation)) receive->bytes = Bytes(12);
  }
  EXPECT_FALSE(check_program(program).empty());
}

TEST(Lowering, BytesThatAreNotThoseOfTheViewsAreFound) {
  Program program = lowered(plan_of(2, 1, 1, 1, PipelineSchedule::OneFOneB, Recompute::None));
  for (Instruction& i : program.roles[0].blocks[3].instructions) {
    if (auto* collective = std::get_if<Collective>(&i.operation)) collective->bytes += Bytes(4);
  }
  EXPECT_FALSE(check_program(program).empty());
}

TEST(Lowering, ACommunicationOnTheComputeStreamIsFound) {
  Program program = lowered(plan_of(2, 1, 1, 1, PipelineSchedule::OneFOneB, Recompute::None));
  for (Instruction& i : program.roles[0].blocks[3].instructions) {
    if (std::holds_alternative<Collective>(i.operation)) i.stream = Stream::Compute;
  }
  EXPECT_FALSE(check_program(program).empty());
}

// What waits for what depends on no microbatch's size: a stage made like its twin is the stage.
TEST(Lowering, AStageMadeLikeItsTwinIsTheStage) {
  for (Plan plan : sample_plans()) {
    plan.dense->sequence_parallel = plan.dense->tensor > 1;
    Job job = small_job();
    job.global_batch = plan.dense->data_ways();
    const Role twin = lower_stage(plan, small_gpt2(), job, 0);
    plan.dense->microbatch = 3;
    job.global_batch *= 3;
    const Role whole = lower_stage(plan, small_gpt2(), job, 0);
    const Role made = lower_stage_like(twin, plan, small_gpt2(), job, 0);
    for (std::size_t b = 0; b < whole.blocks.size(); ++b) {
      for (std::size_t i = 0; i < whole.blocks[b].instructions.size(); ++i) {
        const Instruction& expected = whole.blocks[b].instructions[i];
        const Instruction& instruction = made.blocks[b].instructions[i];
        EXPECT_EQ(instruction.waits, expected.waits) << describe(plan) << " " << expected.label;
        EXPECT_EQ(instruction.frees, expected.frees) << describe(plan) << " " << expected.label;
      }
    }
    for (std::size_t k = 0; k < whole.buffers.size(); ++k) {
      EXPECT_EQ(made.buffers[k].bytes(), whole.buffers[k].bytes());
    }
  }
}

}  // namespace
}  // namespace orrery::core
