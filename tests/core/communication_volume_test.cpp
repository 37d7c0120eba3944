// What a step moves, counted in lowered programs, against the published formulas.

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <tuple>

#include "core/check/program_check.h"
#include "core/lowering/lowering.h"
#include "core/trace.h"

namespace orrery::core {
namespace {

constexpr double kSequences = 8, kTokens = 32, kHidden = 64, kLayers = 4, kVocabulary = 256;
constexpr double kBytes = 2;  // bfloat16

Model llama() {
  Transformer t;
  t.family = ModelFamily::Llama;
  t.layers = static_cast<int>(kLayers);
  t.hidden = static_cast<int>(kHidden);
  t.heads = t.kv_heads = 4;
  t.head_dim = 16;
  t.ffn = 256;
  t.vocab = static_cast<int>(kVocabulary);
  t.max_positions = 64;
  t.normalization = Normalization::RmsNorm;
  t.activation = ActivationKind::SwiGlu;
  t.position = PositionKind::Rotary;
  return {"llama", t, std::nullopt};
}

/// 8 experts, 2 for each row.
Model mixtral() {
  Model model = llama();
  model.transformer->family = ModelFamily::Mixtral;
  model.transformer->experts = 8;
  model.transformer->experts_per_token = 2;
  return model;
}

Program lowered(DensePlan dense, const Model& model = llama()) {
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
  Program program = lower(plan, model, {"cluster", {{node, 1}}, {}}, job);
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
  EXPECT_EQ(volumes(program.roles[0], "bucket 2 replicated"),
            (Volumes{{{GroupKind::Tensor, CollectiveKind::AllReduce}, 2 * kHidden * 4}}));
}

/// A layer's exchanges of a plan with experts; 1.5 slots for each that an even share needs.
Volumes of_experts(DensePlan dense) {
  dense.expert_capacity = 1.5;
  dense.axis_order = {Axis::Tensor, Axis::Expert, Axis::Sharding, Axis::Pipeline, Axis::Data};
  return volumes(lowered(dense, mixtral()).roles[0], "layers.1.");
}

// GShard, arXiv 2006.16668, section 3.2: rows go to their experts and back, and so do their gradients:
// four all-to-alls of capacity · k · sbh of the rows that a rank has, here half of all.
TEST(CommunicationVolume, OfExpertsIsFourExchangesOfTheirSlots) {
  const double slots = 1.5 * 2 * kActivations / 2;
  EXPECT_EQ(of_experts({.expert = 2, .microbatch = 2}),
            (Volumes{{{GroupKind::Expert, CollectiveKind::AllToAll}, 4 * slots}}));
  EXPECT_EQ(of_experts({.expert = 2, .microbatch = 2, .recompute = Recompute::Full}),
            (Volumes{{{GroupKind::Expert, CollectiveKind::AllToAll}, 6 * slots}}));
  // Ranks of a tensor group have half of the rows each. With parts of every expert they gather what
  // the others received, and scatter the sums; attention keeps its half of the layer's collectives.
  const auto gathers = std::pair(GroupKind::Tensor, CollectiveKind::AllGather);
  const auto sums = std::pair(GroupKind::Tensor, CollectiveKind::ReduceScatter);
  DensePlan whole{.tensor = 2, .sequence_parallel = true, .microbatch = 2};
  EXPECT_EQ(of_experts(whole), (Volumes{{{GroupKind::Expert, CollectiveKind::AllToAll}, 4 * slots},
                                        {gathers, 3 * kActivations},
                                        {sums, 2 * kActivations}}));
  DensePlan parts = whole;
  parts.expert_tensor = 2;
  EXPECT_EQ(of_experts(parts), (Volumes{{gathers, 3 * kActivations + 2 * 2 * slots},
                                        {sums, 2 * kActivations + 2 * 2 * slots}}));
}

// Of what is no expert's every expert rank holds a copy, or, with ZeRO, a slice; of experts other ranks
// hold none. P and X parameters of a stage on a rank in all, gradients in float32.
TEST(CommunicationVolume, OfExpertsGradientsIsOverTheirOwnRanks) {
  const auto of = [](DensePlan dense) {
    dense.microbatch = 1;
    dense.axis_order = {Axis::Tensor, Axis::Expert, Axis::Sharding, Axis::Pipeline, Axis::Data};
    return volumes(lowered(dense, mixtral()).roles[0], "bucket");
  };
  constexpr double kFfn = 256, kExperts = 8;
  const double x = kLayers * 3 * kHidden * kFfn * kExperts / 4;  // Of a quarter of the experts.
  const double p = kLayers * (4 * kHidden * kHidden + 2 * kHidden + kExperts * kHidden) +
                   2 * kVocabulary * kHidden + kHidden;
  EXPECT_EQ(of({.data = 2, .expert = 4}),
            (Volumes{{{GroupKind::Data, CollectiveKind::AllReduce}, 4 * p},
                     {{GroupKind::ExpertData, CollectiveKind::AllReduce}, 4 * x}}));
  EXPECT_EQ(of({.sharding = 2, .sharding_stage = 1, .expert = 4}),
            (Volumes{{{GroupKind::Sharding, CollectiveKind::ReduceScatter}, 4 * p},
                     {{GroupKind::Sharding, CollectiveKind::AllGather}, kBytes * p},
                     {{GroupKind::ExpertSharding, CollectiveKind::ReduceScatter}, 4 * x},
                     {{GroupKind::ExpertSharding, CollectiveKind::AllGather}, kBytes * x}}));
}

constexpr double kMicrobatches = 2;

/// Collectives of the gradient buckets of two ranks that see different samples.
Volumes of_buckets(DensePlan dense) {
  dense.microbatch = 2;
  return volumes(lowered(dense).roles[0], "bucket");
}

double parameters_of(DensePlan dense) {
  dense.microbatch = 2;
  return static_cast<double>(lowered(dense).roles[0].parameters.elements);
}

// Rajbhandari et al., ZeRO, SC 2020, section 7, for N parameters, gradients in float32, parameters in
// bfloat16 and m microbatches. Data parallelism: an all-reduce (which moves twice its size). Stage 1:
// the same as reduce-scatter of gradients and all-gather of parameters. Stage 2 here reduces every
// microbatch. Stage 3 gathers the parameters for each forward and each backward instead: with m = 1
// and one size of number 3/2 of what data parallelism moves. (The look-up's backward reads no
// embedding.)
TEST(CommunicationVolume, OfShardingIsThatOfZero) {
  const auto reduce = std::pair(GroupKind::Sharding, CollectiveKind::ReduceScatter);
  const auto gather = std::pair(GroupKind::Sharding, CollectiveKind::AllGather);
  const double n = parameters_of({.sharding = 2, .sharding_stage = 1});
  EXPECT_EQ(of_buckets({.data = 2}),
            (Volumes{{{GroupKind::Data, CollectiveKind::AllReduce}, 4 * n}}));
  EXPECT_EQ(of_buckets({.sharding = 2, .sharding_stage = 1}),
            (Volumes{{reduce, 4 * n}, {gather, kBytes * n}}));
  EXPECT_EQ(of_buckets({.sharding = 2, .sharding_stage = 2}),
            (Volumes{{reduce, kMicrobatches * 4 * n}, {gather, kBytes * n}}));
  EXPECT_EQ(of_buckets({.sharding = 2, .sharding_stage = 3}),
            (Volumes{{reduce, kMicrobatches * 4 * n},
                     {gather, kMicrobatches * (2 * n - kVocabulary * kHidden) * kBytes}}));
}

// Hybrid sharding: the slices' sums are all-reduced over the replicas once per step.
TEST(CommunicationVolume, OfHybridShardingReducesSlicesOverReplicas) {
  DensePlan dense{.data = 2, .sharding = 2, .sharding_stage = 3, .microbatch = 2};
  const double n = parameters_of(dense);
  const Volumes found = volumes(lowered(dense).roles[0], "bucket");
  EXPECT_EQ(found.at({GroupKind::Data, CollectiveKind::AllReduce}), 4 * n / 2);
}

// Buckets change how often, not how much. 4 layers of 65,664 parameters: 263 kB each in float32.
TEST(CommunicationVolume, DoesNotDependOnBuckets) {
  const auto reductions = [](DensePlan dense) {
    dense.microbatch = 2;
    const Program program = lowered(dense);
    int count = 0;
    for (const Instruction& i : program.roles[0].blocks.back().instructions) {
      const auto* c = std::get_if<Collective>(&i.operation);
      if (c != nullptr && i.label.rfind("bucket", 0) == 0) ++count;
    }
    return count;
  };
  const Volumes by_layer = of_buckets({.data = 2});
  EXPECT_EQ(of_buckets({.data = 2, .bucket = Bytes(500e3)}), by_layer);
  EXPECT_EQ(of_buckets({.data = 2, .overlap_gradients = false}), by_layer);
  // Embedding, layers, head.
  EXPECT_EQ(reductions({.data = 2}), 6);
  EXPECT_EQ(reductions({.data = 2, .bucket = Bytes(500e3)}), 4);
  EXPECT_EQ(reductions({.data = 2, .overlap_gradients = false}), 1);
}

// Jacobs et al., DeepSpeed Ulysses, arXiv 2309.14509, section 3: per layer all-to-alls of queries,
// keys, values and of the output, 4·sbh/c on each of c ranks; backward the same.
TEST(CommunicationVolume, OfAllToAllIsFourActivationsEachWay) {
  const Program program = lowered({.context = 2,
                                   .microbatch = 2,
                                   .context_method = ContextMethod::AllToAll,
                                   .axis_order = {Axis::Context}});
  EXPECT_EQ(volumes(program.roles[0], "layers.1."),
            (Volumes{{{GroupKind::Context, CollectiveKind::AllToAll}, 8 * kActivations / 2}}));
}

// Liu et al., Ring Attention, arXiv 2310.01889: a rank's keys and values, 2·sbh/c, visit the c − 1
// others; backward they do so again, and their gradients come all the way home.
TEST(CommunicationVolume, OfARingIsKeysAndValuesOncePerRank) {
  for (const int ways : {2, 4}) {
    const Program program =
        lowered({.context = ways, .microbatch = 2, .axis_order = {Axis::Context}});
    double sent = 0;
    for (const Call& call : program.roles[0].step) {
      for (const Instruction& i : program.roles[0].blocks[call.block.index()].instructions) {
        if (i.label.rfind("layers.1.", 0) != 0) continue;
        if (const auto* send = std::get_if<Send>(&i.operation)) sent += send->bytes.value;
      }
    }
    EXPECT_EQ(sent, 2 * kActivations / ways * ((ways - 1) + (ways - 1) + ways)) << ways << " ranks";
  }
}

using Kinds = std::set<SpanKind>;

/// The kinds of communication of the passes, and of the step's end.
Kinds kinds_of(const Program& program, bool end) {
  Kinds kinds;
  for (const Role& role : program.roles) {
    for (const Call& call : role.step) {
      if (call.microbatch.has_value() == end) continue;
      for (const Instruction& i : role.blocks[call.block.index()].instructions) {
        if (!std::holds_alternative<Compute>(i.operation)) kinds.insert(span_kind(i));
      }
    }
  }
  return kinds;
}

// A plan with one way of splitting the work has that one kind of communication within its passes.
TEST(CommunicationKind, IsThatOfTheGroupItServes) {
  const auto in_passes = [](DensePlan dense) { return kinds_of(lowered(std::move(dense)), false); };
  EXPECT_EQ(in_passes({.data = 2}), Kinds{});
  EXPECT_EQ(in_passes({.tensor = 2}), Kinds{SpanKind::TensorCommunication});
  EXPECT_EQ(in_passes({.tensor = 2, .sequence_parallel = true}),
            Kinds{SpanKind::TensorCommunication});
  for (const ContextMethod method : {ContextMethod::Ring, ContextMethod::AllToAll}) {
    EXPECT_EQ(in_passes({.context = 2, .context_method = method, .axis_order = {Axis::Context}}),
              Kinds{SpanKind::ContextCommunication});
  }
  EXPECT_EQ(in_passes({.pipeline = 2, .layers_per_stage = {2, 2}}),
            Kinds{SpanKind::PipelineCommunication});
  EXPECT_EQ(in_passes({.sharding = 2, .sharding_stage = 2}), Kinds{SpanKind::DataCommunication});
  EXPECT_EQ(in_passes({.sharding = 2, .sharding_stage = 3}),
            (Kinds{SpanKind::ParameterGather, SpanKind::DataCommunication}));
}

TEST(CommunicationKind, AtTheStepsEndIsData) {
  for (const DensePlan& dense : {DensePlan{.data = 2}, DensePlan{.tensor = 2},
                                 DensePlan{.context = 2, .axis_order = {Axis::Context}},
                                 DensePlan{.sharding = 2, .sharding_stage = 1}}) {
    EXPECT_EQ(kinds_of(lowered(dense), true), Kinds{SpanKind::DataCommunication});
  }
}

}  // namespace
}  // namespace orrery::core
