// What `orrery plan --explain` says, against the lowered plan and the estimate.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "core/lowering/lowering.h"
#include "costmodel/estimate.h"
#include "tests/costmodel/small_inputs.h"

namespace orrery::costmodel {
namespace {

using core::CollectiveKind;
using ::testing::HasSubstr;
using ::testing::Not;

core::Model llama() { return {"small", small_llama(), std::nullopt}; }

core::Plan plan_of(core::DensePlan dense) {
  core::Plan plan;
  if (dense.layers_per_stage.empty()) {
    dense.layers_per_stage = core::even_layers(8, dense.pipeline * dense.virtual_stages);
  }
  dense.axis_order.insert(dense.axis_order.begin() + 1, core::Axis::Context);
  plan.dense = dense;
  return plan;
}

/// Links so slow that all communication is exposed.
core::Cluster slow_cluster(int ranks) {
  core::Cluster cluster = cpu_cluster(ranks);
  cluster.groups[0].type.device_link.bandwidth = core::BytesPerSecond(1e6);
  return cluster;
}

/// The texts by term; those of memory as "memory: weights".
std::map<std::string, std::string> texts_of(const core::Plan& plan, const core::Model& model,
                                            const core::Job& job) {
  const core::Cluster cluster = slow_cluster(plan.devices());
  const Outcome outcome = estimate(plan, model, cluster, job);
  std::map<std::string, std::string> texts;
  if (const auto* infeasible = std::get_if<Infeasible>(&outcome)) {
    ADD_FAILURE() << core::describe(plan) << ": " << infeasible->why;
    return texts;
  }
  for (const auto& line : explain(std::get<Estimate>(outcome), plan, model, cluster, job)) {
    const bool memory = line.unit == Explanation::Unit::Bytes;
    texts[(memory ? "memory: " : "") + line.term] = line.text;
  }
  return texts;
}
std::map<std::string, std::string> texts_of(core::DensePlan dense) {
  return texts_of(plan_of(std::move(dense)), llama(), small_job());
}

/// Communications of layer 1 in one block of a lowered stage.
struct Counts {
  int all_reduces = 0, all_gathers = 0, reduce_scatters = 0, all_to_alls = 0, sends = 0;
};
Counts counts_of(const core::DensePlan& dense, const std::string& block_name, bool recomputed) {
  const core::Model model = llama();
  const core::Plan plan = plan_of(dense);
  const core::Job job = small_job();
  const core::Cluster cluster = slow_cluster(plan.devices());
  const core::Program program = core::lower(plan, model, cluster, job);
  Counts counts;
  for (const core::Block& block : program.roles[0].blocks) {
    if (block.name != block_name) continue;
    for (const core::Instruction& i : block.instructions) {
      if (i.label.rfind("layers.1.", 0) != 0) continue;
      if ((i.pass == core::Pass::Recompute) != recomputed) continue;
      if (std::holds_alternative<core::Send>(i.operation)) ++counts.sends;
      const auto* c = std::get_if<core::Collective>(&i.operation);
      if (c == nullptr) continue;
      if (c->kind == CollectiveKind::AllReduce) ++counts.all_reduces;
      if (c->kind == CollectiveKind::AllGather) ++counts.all_gathers;
      if (c->kind == CollectiveKind::ReduceScatter) ++counts.reduce_scatters;
      if (c->kind == CollectiveKind::AllToAll) ++counts.all_to_alls;
    }
  }
  return counts;
}

TEST(Explain, CountsTheAllReducesOfTensorParallelism) {
  for (const bool whole : {false, true}) {
    const core::DensePlan dense{
        .tensor = 2, .recompute = core::Recompute::Full, .recompute_whole = whole};
    EXPECT_THAT(texts_of(dense).at("tensor communication"),
                HasSubstr(fmt::format("{} all-reduces per layer forward and {} backward, {} more "
                                      "where it is recomputed over 2 devices",
                                      counts_of(dense, "forward", false).all_reduces,
                                      counts_of(dense, "backward", false).all_reduces,
                                      counts_of(dense, "backward", true).all_reduces)));
  }
}

TEST(Explain, CountsTheCollectivesOfSequenceParallelism) {
  core::DensePlan dense{.tensor = 2, .sequence_parallel = true};
  const auto text = [&] { return texts_of(dense).at("tensor communication"); };
  const auto counts = [&](const char* block, bool recomputed) {
    const Counts c = counts_of(dense, block, recomputed);
    EXPECT_EQ(c.all_reduces, 0);
    return c;
  };
  const Counts forward = counts("forward", false);
  const std::string begin = fmt::format("{} all-gathers and {} reduce-scatters per layer forward, ",
                                        forward.all_gathers, forward.reduce_scatters);
  const Counts backward = counts("backward", false);
  EXPECT_THAT(text(), HasSubstr(begin + fmt::format("{} and {} backward", backward.all_gathers,
                                                    backward.reduce_scatters)));
  EXPECT_THAT(text(), Not(HasSubstr("all-reduce")));
  dense.recompute = core::Recompute::Full;
  const Counts again = counts("backward", true);
  EXPECT_THAT(text(), HasSubstr(fmt::format(", {} and {} more where it is recomputed",
                                            again.all_gathers, again.reduce_scatters)));
  dense.recompute = core::Recompute::None;
  dense.schedule = core::PipelineSchedule::ZeroBubbleH1;
  dense.pipeline = 2;
  const Counts inputs = counts("input grad", false);
  EXPECT_THAT(text(), HasSubstr(begin + fmt::format("{} and {} backward and {} all-gathers for its "
                                                    "weight gradients",
                                                    inputs.all_gathers, inputs.reduce_scatters,
                                                    counts("weight grad", false).all_gathers)));
}

TEST(Explain, CountsTheHopsOfARing) {
  const core::DensePlan dense{.context = 4,
                              .recompute = core::Recompute::Selective,
                              .context_method = core::ContextMethod::Ring};
  const int forward = counts_of(dense, "forward", false).sends;
  const int backward = counts_of(dense, "backward", false).sends;
  EXPECT_EQ(forward, 3);
  EXPECT_EQ(backward, 3 + 4);
  EXPECT_EQ(counts_of(dense, "backward", true).sends, 3);
  const auto texts = texts_of(dense);
  EXPECT_THAT(texts.at("context communication"),
              HasSubstr("keys and values take 3 hops round 4 devices in each layer's attention, 3 "
                        "more backward, 3 more where attention is recomputed and their gradients "
                        "4"));
  EXPECT_THAT(texts.at("memory: communication"), HasSubstr("keys and values on their way round"));
  EXPECT_EQ(texts.count("tensor communication"), 0U);
  EXPECT_EQ(texts.count("pipeline communication"), 0U);
  EXPECT_THAT(texts.at("gradient communication"),
              HasSubstr("all-reduce over the 4 devices that share a sequence"));
}

// What does not happen has no line, however the terms are rounded.
TEST(Explain, NamesNoPipelineWhereThereIsNone) {
  for (const core::Plan& plan : small_plans(8)) {
    const auto texts = texts_of(plan, llama(), small_job());
    for (const char* term : {"pipeline bubble", "pipeline communication"}) {
      EXPECT_EQ(texts.count(term), plan.dense->pipeline > 1 ? 1U : 0U) << core::describe(plan);
    }
    EXPECT_EQ(texts.count("recompute"), plan.dense->recompute == core::Recompute::None ? 0U : 1U);
  }
}

TEST(Explain, CountsTheAllToAlls) {
  const core::DensePlan dense{.context = 2, .context_method = core::ContextMethod::AllToAll};
  EXPECT_THAT(
      texts_of(dense).at("context communication"),
      HasSubstr(fmt::format("{} all-to-alls per layer forward and {} backward over 2 devices",
                            counts_of(dense, "forward", false).all_to_alls,
                            counts_of(dense, "backward", false).all_to_alls)));
}

TEST(Explain, SaysWhatIsRecomputed) {
  const auto text = [](core::DensePlan dense) { return texts_of(dense).at("recompute"); };
  core::DensePlan dense{.recompute = core::Recompute::Full};
  EXPECT_EQ(text(dense),
            "the forward pass of each layer again before its backward pass, but its last product");
  dense.recompute_whole = true;
  EXPECT_THAT(text(dense), HasSubstr("its last product too"));
  dense.recompute_layers = 3;
  EXPECT_THAT(text(dense), HasSubstr("each of a stage's first 3 layers"));
  EXPECT_THAT(texts_of(dense).at("memory: activations"),
              HasSubstr("the input alone of each of a stage's first 3 layers"));
  dense = {.recompute = core::Recompute::Selective};
  EXPECT_EQ(text(dense), "the attention of each layer again before its backward pass");
  dense.attention = core::AttentionKind::Plain;
  EXPECT_THAT(text(dense), HasSubstr("scores and softmax of the attention"));
  EXPECT_EQ(texts_of({.tensor = 2}).count("recompute"), 0U);
}

TEST(Explain, SaysInWhichPiecesGradientsAreReduced) {
  const auto text = [](core::DensePlan dense) {
    return texts_of(dense).at("gradient communication");
  };
  EXPECT_THAT(text({.data = 2}), HasSubstr("all-reduce over 2 replicas, a layer at a time, "));
  EXPECT_THAT(text({.data = 2, .bucket = core::Bytes(5e5)}),
              HasSubstr("layers joined until their gradients have 500 kB"));
  EXPECT_THAT(text({.data = 2, .overlap_gradients = false}),
              HasSubstr("all at once after the last backward pass"));
  EXPECT_THAT(text({.tensor = 2}), Not(HasSubstr("replicas")));
  EXPECT_THAT(text({.tensor = 2, .sequence_parallel = true}),
              HasSubstr("the normalisations' gradients over the tensor group"));
}

// Stage 1 reduces once a step and gathers the updated parameters; stage 2 reduces in each backward
// pass; stage 3 gathers in the passes instead, and slices of all three kinds are kept.
TEST(Explain, TellsTheStagesOfShardingApart) {
  std::vector<std::map<std::string, std::string>> texts;
  for (const int stage : {1, 2, 3}) {
    texts.push_back(texts_of({.data = 2, .sharding = 2, .sharding_stage = stage}));
  }
  for (const int stage : {1, 2, 3}) {
    const auto& t = texts[static_cast<std::size_t>(stage - 1)];
    const std::string& gradient = t.at("gradient communication");
    EXPECT_THAT(gradient, HasSubstr("reduce-scatter over 2 devices"));
    EXPECT_THAT(gradient, HasSubstr("all-reduce of the slices over 2 replicas"));
    EXPECT_EQ(gradient.find("in each backward pass") != std::string::npos, stage >= 2);
    EXPECT_EQ(gradient.find("all-gather of the updated parameters") != std::string::npos,
              stage < 3);
    EXPECT_EQ(t.count("parameter gather"), stage == 3 ? 1U : 0U);
    EXPECT_THAT(t.at("optimizer"), HasSubstr("update of 1/2 of its parameters"));
    EXPECT_EQ(t.at("optimizer").find("zeroing of 1/2 of") != std::string::npos, stage >= 2);
    EXPECT_EQ(t.at("memory: gradients").find("1/2 of the stage") != std::string::npos, stage >= 2);
    EXPECT_EQ(t.at("memory: weights").find("1/2 of stage") != std::string::npos, stage == 3);
  }
  EXPECT_THAT(texts[2].at("parameter gather"), HasSubstr("all-gather of the parameters over 2"));
  EXPECT_THAT(texts[1].at("memory: communication"), HasSubstr("full gradients of two buckets"));
}

TEST(Explain, NamesTheOptimizersState) {
  core::Job job = small_job();
  const auto text = [&] { return texts_of(plan_of({}), llama(), job).at("memory: optimizer"); };
  EXPECT_EQ(text(), "two float32 moments of the parameters");
  job.precision = core::DType::BFloat16;
  EXPECT_EQ(text(), "a float32 copy and two float32 moments of the parameters");
  job.optimizer.kind = core::OptimizerKind::Sgd;
  EXPECT_EQ(text(), "a float32 copy of the parameters");
}

// (p-1)/(m+p-1) with m = 16: 3/19. Two chunks halve the passes of which three fill: 3/35.
TEST(Explain, TheBubblesFormulaIsThatOfTheSchedule) {
  const auto text = [](core::DensePlan dense) { return texts_of(dense).at("pipeline bubble"); };
  EXPECT_THAT(text({.pipeline = 4}), HasSubstr("(p-1)/(m+p-1) = 15.8%"));
  EXPECT_THAT(
      text({.pipeline = 4, .virtual_stages = 2, .schedule = core::PipelineSchedule::Interleaved}),
      HasSubstr("(p-1)/(2m+p-1) = 8.6%"));
  EXPECT_THAT(text({.pipeline = 4, .schedule = core::PipelineSchedule::ZeroBubbleH1}),
              HasSubstr("weight gradients"));
}

}  // namespace
}  // namespace orrery::costmodel
