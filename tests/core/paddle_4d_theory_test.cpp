// The volumes that Paddle's documentation states for its 4D hybrid parallelism
// (data/validation/paddle_4d_theory.csv), derived from what lowered programs move:
//
//   between nodes   h·b·s · 2·m  +  2·M/pp (with data parallelism)
//   within a node   (h·b·s · 4·L/pp  +  3·M/pp (with sharding)) · m
//
// in elements per pipeline stage and step, h·b·s the activations of a microbatch, m microbatches, L
// layers, M parameters. Its conventions, each accounted for below:
//   pipeline   activations and gradients, so twice: as counted here
//   data       an all-reduce counts twice its buffer; for all tensor ranks of a stage together
//   tensor     an all-reduce counts twice; of the forward pass only, so half of what a step moves
//   sharding   two broadcasts of the parameters and one reduction in every microbatch, for all tensor
//              ranks together; ZeRO 1 as lowered here moves them once per step, 2·M/pp/tensor

#include <gtest/gtest.h>

#include <variant>

#include "core/lowering/lowering.h"

namespace orrery::core {
namespace {

constexpr int kLayers = 8;
constexpr int kHidden = 64;
constexpr int kSequence = 16;
constexpr int kBatch = 32;
constexpr double kElement = 4.0;  // float32
constexpr double kFloat = 4.0;

Model gpt() {
  Transformer t;
  t.layers = kLayers;
  t.hidden = kHidden;
  t.heads = t.kv_heads = 4;
  t.head_dim = kHidden / 4;
  t.ffn = 4 * kHidden;
  t.vocab = 128;
  t.max_positions = kSequence;
  return {"gpt", t, std::nullopt};
}

DensePlan plan_of(int data, int pipeline, int sharding, int tensor) {
  DensePlan plan;
  plan.data = data;
  plan.pipeline = pipeline;
  plan.sharding = sharding;
  plan.sharding_stage = sharding > 1 ? 1 : 0;
  plan.tensor = tensor;
  plan.microbatch = 2;
  plan.layers_per_stage = even_layers(kLayers, pipeline);
  return plan;
}

/// Elements that a rank of an inner stage sends, or has reduced or gathered, in one step.
struct Moved {
  double messages = 0, data = 0, sharding = 0, tensor_forward = 0, tensor_all = 0;
};

Moved moved(const DensePlan& dense) {
  Plan plan;
  plan.dense = dense;
  Job job;
  job.sequence = kSequence;
  job.global_batch = kBatch;
  job.steps = 1;
  NodeType node;
  node.devices = plan.devices();
  node.cores = 1;
  const Program program = lower(plan, gpt(), {"cluster", {{node, 1}}, {}}, job);
  Moved result;
  for (const RankBinding& rank : program.ranks) {
    if (rank.stage != 1) continue;
    const Role& role = program.roles[rank.role.index()];
    for (const Call& call : role.step) {
      for (const Instruction& i : role.blocks[call.block.index()].instructions) {
        if (const auto* send = std::get_if<Send>(&i.operation)) {
          result.messages += send->bytes.value / kElement;
        }
        const auto* collective = std::get_if<Collective>(&i.operation);
        if (collective == nullptr) continue;
        const double elements = collective->bytes.value / kFloat;
        const GroupKind kind = role.group_slots[collective->group.index()];
        if (kind == GroupKind::Data) result.data += elements;
        if (kind == GroupKind::Sharding) result.sharding += elements;
        if (kind != GroupKind::Tensor) continue;
        result.tensor_all += elements;
        if (i.pass == Pass::Forward) result.tensor_forward += elements;
      }
    }
    break;
  }
  return result;
}

/// M/pp, of the layers of one stage: 12·h² + 9·h without biases of the products, plus the two
/// normalisations' vectors; read off the program's own count below, so only its size is checked here.
double parameters_of_a_stage(int pipeline) { return 12.0 * kHidden * kHidden * kLayers / pipeline; }

struct Strategy {
  int data, pipeline, sharding, tensor;
};

class Paddle4D : public testing::TestWithParam<Strategy> {};

TEST_P(Paddle4D, VolumesFollowFromThePrograms) {
  const Strategy s = GetParam();
  const DensePlan plan = plan_of(s.data, s.pipeline, s.sharding, s.tensor);
  const Moved found = moved(plan);
  const double hbs = 1.0 * kHidden * plan.microbatch * kSequence;
  const double m = microbatches(plan, kBatch);
  const double stage = parameters_of_a_stage(s.pipeline);
  EXPECT_DOUBLE_EQ(found.messages, hbs * 2 * m);
  // All-reduces count twice; forward only.
  EXPECT_DOUBLE_EQ(found.tensor_forward * 2, hbs * 4 * kLayers / s.pipeline * m);
  EXPECT_DOUBLE_EQ(found.tensor_all, found.tensor_forward * 2);
  // Biases and normalisations, and padding to equal shards, are the rest: 9·h of 12·h² each layer.
  const double rest = 1.0 + 9.0 / (12.0 * kHidden) + 0.01;
  if (s.data > 1) {
    // A sharded rank reduces its shard; all tensor ranks and shards of a stage together reduce M/pp.
    const double all = found.data * s.tensor * s.sharding * 2;
    EXPECT_GE(all, 2 * stage);
    EXPECT_LE(all, 2 * stage * rest);
  } else {
    EXPECT_EQ(found.data, 0.0);
  }
  if (s.sharding > 1) {
    // Once scattered and once gathered per step, where the formula has 3·m.
    const double per_pass = found.sharding * s.tensor / 2;
    EXPECT_GE(per_pass * 3 * m, 3 * stage * m);
    EXPECT_LE(per_pass * 3 * m, 3 * stage * m * rest);
  } else {
    EXPECT_EQ(found.sharding, 0.0);
  }
}

// The three strategies compared there, with a sixteenth of their stages.
INSTANTIATE_TEST_SUITE_P(OfItsDocumentation, Paddle4D,
                         testing::Values(Strategy{1, 4, 4, 2}, Strategy{2, 4, 1, 4},
                                         Strategy{2, 4, 4, 2}));

}  // namespace
}  // namespace orrery::core
