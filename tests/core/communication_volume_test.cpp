// What a step moves, counted in lowered programs, against the published formulas.

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <tuple>

#include "core/check/program_check.h"
#include "core/lowering/lowering.h"

namespace orrery::core {
namespace {

constexpr double kSequences = 8, kTokens = 32, kHidden = 64, kLayers = 4;
constexpr double kBytes = 2;  // bfloat16

Model llama() {
  Transformer t;
  t.family = ModelFamily::Llama;
  t.layers = static_cast<int>(kLayers);
  t.hidden = static_cast<int>(kHidden);
  t.heads = t.kv_heads = 4;
  t.head_dim = 16;
  t.ffn = 256;
  t.vocab = 256;
  t.max_positions = 64;
  t.normalization = Normalization::RmsNorm;
  t.activation = ActivationKind::SwiGlu;
  t.position = PositionKind::Rotary;
  return {"llama", t, std::nullopt};
}

Program lowered(DensePlan dense) {
  if (dense.layers_per_stage.empty()) dense.layers_per_stage = {4};
  Plan plan;
  plan.dense = dense;
  Job job;
  job.sequence = static_cast<int>(kTokens);
  job.global_batch = static_cast<int>(kSequences);
  job.precision = DType::BFloat16;
  job.steps = 1;
  NodeType node;
  node.devices = plan.devices();
  node.cores = 2;
  Program program = lower(plan, llama(), {"cluster", {{node, 1}}, {}}, job);
  EXPECT_TRUE(check_program(program).empty());
  return program;
}

using Volumes = std::map<std::pair<GroupKind, CollectiveKind>, double>;

/// Bytes of the collectives of a role's step whose label begins with `part`, by group and kind.
Volumes volumes(const Role& role, const std::string& part) {
  Volumes result;
  for (const Call& call : role.step) {
    for (const Instruction& i : role.blocks[call.block.index()].instructions) {
      const auto* collective = std::get_if<Collective>(&i.operation);
      if (collective == nullptr || i.label.rfind(part, 0) != 0) continue;
      result[{role.group_slots[collective->group.index()], collective->kind}] +=
          collective->bytes.value;
    }
  }
  return result;
}

// sbh bytes of one layer's activations over the whole batch, in bfloat16.
constexpr double kActivations = kSequences * kTokens * kHidden * kBytes;

// Megatron-LM, arXiv 1909.08053: two all-reduces of sbh forward, two backward, in each layer.
TEST(CommunicationVolume, OfTensorParallelismIsFourAllReducesPerLayer) {
  const Program program = lowered({.tensor = 2, .microbatch = 2});
  const Volumes found = volumes(program.roles[0], "layers.1.");
  EXPECT_EQ(found, (Volumes{{{GroupKind::Tensor, CollectiveKind::AllReduce}, 4 * kActivations}}));
}

// Korthikanti et al., arXiv 2205.05198, section 4.2.2: each all-reduce becomes a reduce-scatter and
// an all-gather, which move as much as it; and backward gathers once more what the two
// column-parallel products read.
TEST(CommunicationVolume, OfSequenceParallelismIsTensorParallelismsAndTwoGathers) {
  const Program program = lowered({.tensor = 2, .sequence_parallel = true, .microbatch = 2});
  const Volumes found = volumes(program.roles[0], "layers.1.");
  EXPECT_EQ(found,
            (Volumes{{{GroupKind::Tensor, CollectiveKind::ReduceScatter}, 4 * kActivations},
                     {{GroupKind::Tensor, CollectiveKind::AllGather}, (4 + 2) * kActivations}}));
  // The two normalisations' weights of a layer, in float32.
  EXPECT_EQ(volumes(program.roles[0], "bucket 2 norms"),
            (Volumes{{{GroupKind::Tensor, CollectiveKind::AllReduce}, 2 * kHidden * 4}}));
}

}  // namespace
}  // namespace orrery::core
