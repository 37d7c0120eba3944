// The estimate of a plan against the simulation of its program, with the same durations.

#include <gtest/gtest.h>

#include "core/lowering/lowering.h"
#include "costmodel/estimate.h"
#include "costmodel/predict_durations.h"
#include "costmodel/search.h"
#include "sim/simulate.h"
#include "tests/costmodel/small_inputs.h"

namespace orrery {
namespace {

struct Pair {
  double estimated, simulated;
};

Pair both(const core::Plan& plan, const core::Model& model, const core::Cluster& cluster,
          const core::Job& job) {
  const core::Program program = core::lower(plan, model, cluster, job);
  const core::Durations durations = costmodel::predict_durations(program, cluster, job);
  const auto outcome = costmodel::estimate(plan, model, cluster, job);
  return {std::get<costmodel::Estimate>(outcome).step.value,
          sim::simulate_step(program, durations, cluster).value};
}

/// The same with devices whose streams do not share one thread, as a CPU rank's do: loading samples
/// then never holds up computing. Their host issues a kernel in `launch`.
core::Cluster with_own_streams(core::Cluster cluster, core::Seconds launch = {}) {
  for (core::NodeGroup& group : cluster.groups) {
    group.type.device.kind = core::DeviceKind::Gpu;
    group.type.device.launch = launch;
    group.type.device.gap = core::Seconds(2e-6);
  }
  return cluster;
}

/// The plan with its gradients reduced after the last pass, all at once, and with layers recomputed
/// whole.
core::Plan as_frameworks_do(core::Plan plan) {
  plan.dense->overlap_gradients = false;
  plan.dense->recompute_whole = plan.dense->recompute == core::Recompute::Full;
  return plan;
}

// Where no two kinds of communication are under way on one link, the estimate is the simulation.
TEST(EstimateAgreement, IsExactWithoutContention) {
  int exact = 0;
  for (const auto& transformer : {costmodel::small_gpt2(), costmodel::small_llama()}) {
    std::vector<core::Plan> plans = costmodel::small_plans(transformer.layers);
    for (std::size_t i = 0, n = plans.size(); i < n; ++i) {
      plans.push_back(as_frameworks_do(plans[i]));
    }
    for (const core::Plan& plan : plans) {
      const core::Model model{"small", transformer, std::nullopt};
      const Pair p = both(plan, model, with_own_streams(costmodel::cpu_cluster(plan.devices())),
                          costmodel::small_job());
      // A device's port carries tensor and gradient traffic: gradients of one stage are reduced
      // beside the last backward passes of another. Messages between chunks pass it too, in warm-ups
      // that never wait for them.
      const bool contends =
          plan.dense->tensor > 1 && (plan.dense->data_ways() > 1 || plan.dense->virtual_stages > 1);
      EXPECT_NEAR(p.estimated / p.simulated, 1.0, contends ? 1e-3 : 1e-9) << core::describe(plan);
      exact += contends ? 0 : 1;
    }
  }
  EXPECT_GE(exact, 160);
}

core::Cluster disturbed(core::Cluster cluster) {
  cluster = with_own_streams(std::move(cluster));
  for (core::NodeGroup& group : cluster.groups) group.type.device.beside_communication = 1.3;
  return cluster;
}

// Within a pass both follow the same events. Where gradients are reduced beside last passes the estimate
// adds up what each stage's take longer.
TEST(EstimateAgreement, OfWhatComputingTakesLongerBesideCommunication) {
  int exact = 0, slower = 0;
  for (const auto& transformer : {costmodel::small_gpt2(), costmodel::small_llama()}) {
    const core::Model model{"small", transformer, std::nullopt};
    for (const core::Plan& plan : costmodel::small_plans(transformer.layers)) {
      const Pair p = both(plan, model, disturbed(costmodel::cpu_cluster(plan.devices())),
                          costmodel::small_job());
      const Pair alone = both(plan, model, with_own_streams(costmodel::cpu_cluster(plan.devices())),
                              costmodel::small_job());
      const core::DensePlan& dense = *plan.dense;
      // What stages reduce together may run beside the weight gradients of one of them.
      const bool split = core::splits_backward(dense.schedule);
      const bool follows =
          dense.data_ways() == 1 && (dense.tensor == 1 || dense.virtual_stages == 1);
      EXPECT_NEAR(p.estimated / p.simulated, 1.0,
                  !follows ? 1e-2
                  : split  ? 1e-3
                           : 1e-9)
          << core::describe(plan);
      EXPECT_GE(p.simulated, alone.simulated * (1 - 1e-9)) << core::describe(plan);
      exact += follows && !split ? 1 : 0;
      slower += p.simulated > alone.simulated * (1 + 1e-6) ? 1 : 0;
    }
  }
  EXPECT_GE(exact, 20);
  EXPECT_GE(slower, 20);
}

core::Plan plan_of(core::DensePlan dense, int layers) {
  dense.layers_per_stage = core::even_layers(layers, dense.pipeline);
  core::Plan plan;
  plan.dense = dense;
  return plan;
}

// Passes are timed one by one. What communication streams carry over from one to the next (gathers of
// ZeRO stage 3, a context ring's messages) is left out: less than a hundredth here.
TEST(EstimateAgreement, OfShardedStagesAndContext) {
  using core::Axis;
  const std::vector<Axis> with_context = {Axis::Tensor, Axis::Context, Axis::Pipeline, Axis::Data};
  struct Case {
    core::DensePlan plan;
    double tolerance;
  };
  const auto exchange = core::ContextMethod::AllToAll;
  const std::vector<Case> cases = {
      {{.context = 2, .microbatch = 2, .axis_order = with_context}, 1e-2},
      {{.context = 4, .microbatch = 2, .axis_order = with_context}, 1e-2},
      {{.pipeline = 2, .context = 2, .microbatch = 2, .axis_order = with_context}, 1e-2},
      {{.tensor = 2,
        .context = 2,
        .microbatch = 2,
        .context_method = exchange,
        .axis_order = with_context},
       1e-9},
      {{.sharding = 4, .sharding_stage = 2}, 1e-9},
      {{.sharding = 4, .sharding_stage = 3}, 1e-2},
      {{.data = 2, .sharding = 2, .sharding_stage = 3, .pipeline = 2}, 1e-2},
      {{.data = 2, .microbatch = 2, .bucket = core::Bytes(90e3)}, 1e-9},
  };
  for (const auto& transformer : {costmodel::small_gpt2(), costmodel::small_llama()}) {
    const core::Model model{"small", transformer, std::nullopt};
    for (const Case& c : cases) {
      const core::Plan plan = plan_of(c.plan, transformer.layers);
      const Pair p = both(plan, model, with_own_streams(costmodel::cpu_cluster(plan.devices())),
                          costmodel::small_job());
      EXPECT_NEAR(p.estimated / p.simulated, 1.0, c.tolerance) << core::describe(plan);
    }
  }
}

// Exchanges of rows are waited for like tensor collectives. A layer's experts are reduced after the rest
// of it, and along other axes; both pass a device's port, as in the last backward pass gradients do.
TEST(EstimateAgreement, OfExperts) {
  using core::Axis;
  const std::vector<Axis> order = {Axis::Tensor, Axis::Expert, Axis::Sharding, Axis::Pipeline,
                                   Axis::Data};
  struct Case {
    core::DensePlan plan;
    double tolerance;
  };
  const std::vector<Case> cases = {
      {{.microbatch = 4}, 1e-9},
      {{.expert = 2, .microbatch = 2}, 1e-3},
      {{.expert = 4, .recompute = core::Recompute::Full}, 1e-9},
      {{.data = 2, .expert = 2, .microbatch = 2}, 1e-3},
      {{.sharding_stage = 1, .expert = 4}, 1e-3},
      {{.sharding = 2, .sharding_stage = 1, .expert = 2}, 1e-3},
      {{.pipeline = 2, .expert = 2, .microbatch = 2}, 1e-3},
      {{.tensor = 2, .expert_tensor = 2, .microbatch = 4}, 1e-9},
      {{.tensor = 2, .expert = 2, .expert_tensor = 2, .sequence_parallel = true, .microbatch = 2},
       1e-3},
      {{.tensor = 2, .expert = 2, .sequence_parallel = true, .microbatch = 2}, 1e-3},
      {{.sharding = 2, .sharding_stage = 2, .expert = 2}, 1e-2},
      {{.sharding = 2, .sharding_stage = 3, .expert = 2}, 1e-2},
      {{.data = 2, .sharding_stage = 2, .expert = 2}, 1e-2},
      {{.data = 2, .sharding_stage = 3, .expert = 2}, 1e-2},
      {{.data = 2, .sharding = 2, .sharding_stage = 3, .expert = 2}, 1e-2},
      {{.pipeline = 2, .expert = 2, .schedule = core::PipelineSchedule::ZeroBubbleH1}, 1e-9},
  };
  const core::Model model{"small", costmodel::small_mixtral(), std::nullopt};
  for (Case c : cases) {
    c.plan.axis_order = order;
    const core::Plan plan = plan_of(c.plan, model.transformer->layers);
    const core::Cluster cluster = with_own_streams(costmodel::cpu_cluster(plan.devices()));
    const Pair p = both(plan, model, cluster, costmodel::small_job());
    EXPECT_NEAR(p.estimated / p.simulated, 1.0, c.tolerance) << core::describe(plan);
  }
}

// What is summed at the end of a step outlasts the passes on slow links: slices over replicas, and the
// gradients of experts, whoever shares the rest.
TEST(EstimateAgreement, OfGradientsOnSlowLinks) {
  using core::Axis;
  std::vector<std::pair<core::Transformer, core::DensePlan>> cases;
  for (const int stage : {0, 1, 2, 3}) {
    core::DensePlan experts{.data = 4, .sharding_stage = stage, .expert = 2};
    experts.axis_order = {Axis::Expert, Axis::Data};
    cases.emplace_back(costmodel::small_mixtral(), experts);
    if (stage == 0) continue;
    cases.emplace_back(costmodel::small_llama(),
                       core::DensePlan{.data = 4, .sharding = 2, .sharding_stage = stage});
  }
  for (const auto& [transformer, dense] : cases) {
    const core::Model model{"small", transformer, std::nullopt};
    const core::Plan plan = plan_of(dense, model.transformer->layers);
    core::Cluster cluster = with_own_streams(costmodel::cpu_cluster(plan.devices()));
    cluster.groups[0].type.device_link.bandwidth = core::BytesPerSecond(2e8);
    const Pair p = both(plan, model, cluster, costmodel::small_job());
    EXPECT_NEAR(p.estimated / p.simulated, 1.0, 0.1) << core::describe(plan);
  }
}

// Where gathers of parameters and sums of gradients fill the links they share, a step is as long as both
// together: streams apart would take a third less time.
TEST(EstimateAgreement, GathersAndSumsShareTheirLinks) {
  const core::Model model{"small", costmodel::small_llama(), std::nullopt};
  for (const int stage : {2, 3}) {
    const core::Plan plan =
        plan_of({.sharding = 4, .sharding_stage = stage}, model.transformer->layers);
    core::Cluster cluster = with_own_streams(costmodel::cpu_cluster(plan.devices()));
    cluster.groups[0].type.device_link.bandwidth = core::BytesPerSecond(2e7);
    const Pair p = both(plan, model, cluster, costmodel::small_job());
    EXPECT_NEAR(p.estimated / p.simulated, 1.0, 0.1) << core::describe(plan);
  }
}

/// Two nodes of four devices, those of the second with a third of the first's speed.
core::Cluster unequal_nodes() {
  core::Cluster cluster = with_own_streams(costmodel::cpu_cluster(4));
  core::NodeType& fast = cluster.groups[0].type;
  fast.network_cards = 4;
  fast.network_card = {core::Seconds(3e-6), core::BytesPerSecond(3e9)};
  cluster.groups.push_back(cluster.groups[0]);
  core::Device& slow = cluster.groups[1].type.device;
  slow.name = "slow";
  for (auto& [precision, peak] : slow.peak) peak *= 1.0 / 3;
  slow.memory_bandwidth *= 1.0 / 3;
  cluster.network.kind = core::NetworkKind::Star;
  cluster.network.hop_latency = core::Seconds(0.5e-6);
  return cluster;
}

// With the pipeline outermost a stage lies on one kind of device and is as fast as it; otherwise the
// slowest of its ranks holds up the others.
TEST(EstimateAgreement, AStageIsAsFastAsItsDevices) {
  using core::Axis;
  const core::Cluster cluster = unequal_nodes();
  const core::Model model{"small", costmodel::small_llama(), std::nullopt};
  core::DensePlan outermost{.data = 4, .pipeline = 2};
  outermost.axis_order = {Axis::Tensor, Axis::Sharding, Axis::Data, Axis::Pipeline};
  const core::DensePlan innermost{.data = 4, .pipeline = 2};
  for (const core::DensePlan& dense : {outermost, innermost}) {
    const core::Plan plan = plan_of(dense, model.transformer->layers);
    const Pair p = both(plan, model, cluster, costmodel::small_job());
    EXPECT_NEAR(p.estimated / p.simulated, 1.0, 1e-2) << core::describe(plan);
  }
}

// The search gives the faster devices more layers, and their stage nodes of its own.
TEST(EstimateAgreement, TheBestPlanOnUnequalNodesGivesTheFasterMoreLayers) {
  const core::Cluster cluster = unequal_nodes();
  const core::Model model{"small", costmodel::small_llama(), std::nullopt};
  costmodel::SearchOptions options;
  options.conditions.pipeline = 2;
  options.conditions.tensor = 1;
  const auto found = costmodel::search(model, cluster, costmodel::small_job(), options);
  ASSERT_FALSE(found.ranked.empty());
  const core::DensePlan& best = *found.ranked.front().plan.dense;
  EXPECT_EQ(best.axis_order.back(), core::Axis::Pipeline);
  EXPECT_GT(best.layers_per_stage[0], best.layers_per_stage[1]);
}

// Messages of a ring, all-to-alls and gathered parameters are issued by the host like kernels: where it
// bounds the passes, they take the longer for it. 8 layers, and c − 1 sends forward, 2c − 1 backward in
// each for each microbatch (ring); 2 and 2 (all-to-all); a gather each way and a reduction (stage 3).
TEST(EstimateAgreement, TheHostIssuesCommunicationToo) {
  using core::Axis;
  struct Case {
    core::DensePlan plan;
    double issued;  ///< Per layer and microbatch.
  };
  const std::vector<Case> cases = {{{.context = 4, .axis_order = {Axis::Context}}, 3 + 7},
                                   {{.context = 2,
                                     .context_method = core::ContextMethod::AllToAll,
                                     .axis_order = {Axis::Context}},
                                    2 + 2},
                                   {{.sharding = 4, .sharding_stage = 3}, 1 + 1 + 1}};
  const core::Model model{"small", costmodel::small_llama(), std::nullopt};
  const core::Job job = costmodel::small_job();
  for (const Case& c : cases) {
    const core::Plan plan = plan_of(c.plan, model.transformer->layers);
    const core::Program program =
        core::lower(plan, model, costmodel::cpu_cluster(plan.devices()), job);
    const core::Seconds launch(1e-3);  // Far more than any kernel takes.
    const core::Cluster slow = with_own_streams(costmodel::cpu_cluster(plan.devices()), launch);
    const core::Durations durations = costmodel::predict_durations(program, slow, job);
    core::Seconds communication, all;
    for (const core::Call& call : program.roles[0].step) {
      const auto b = call.block.index();
      for (std::size_t i = 0; i < program.roles[0].blocks[b].instructions.size(); ++i) {
        const core::Seconds issue = durations.issue[0][b][i];
        const core::Operation& operation = program.roles[0].blocks[b].instructions[i].operation;
        all += issue;
        if (!std::holds_alternative<core::Compute>(operation)) communication += issue;
      }
    }
    const double microbatches = program.microbatches;
    EXPECT_GE(communication / launch, 8 * microbatches * c.issued - 1e-6) << core::describe(plan);
    const Pair p = both(plan, model, slow, job);
    EXPECT_NEAR(p.simulated / all.value, 1.0, 0.02) << core::describe(plan);
    EXPECT_NEAR(p.estimated / p.simulated, 1.0, 0.02) << core::describe(plan);
  }
}

// Where the host bounds some passes and the device others, the estimate is the simulation but for
// what is lost where the two take turns within a layer: much in these stages of one or two layers,
// each of them a few kernels.
TEST(EstimateAgreement, IsCloseWhereTheHostIssues) {
  for (const double microseconds : {2.0, 10.0, 50.0}) {
    double slower = 0;
    for (const core::Plan& plan : costmodel::small_plans(8)) {
      const core::Model model{"small", costmodel::small_gpt2(), std::nullopt};
      const core::Cluster free = costmodel::cpu_cluster(plan.devices());
      const core::Seconds launch(microseconds * 1e-6);
      const Pair p = both(plan, model, with_own_streams(free, launch), costmodel::small_job());
      EXPECT_NEAR(p.estimated / p.simulated, 1.0, 0.25) << core::describe(plan);
      const Pair unbound = both(plan, model, with_own_streams(free), costmodel::small_job());
      slower = std::max(slower, p.simulated / unbound.simulated);
    }
    if (microseconds > 10.0) {
      EXPECT_GT(slower, 3.0);
    }
  }
}

/// Nodes of four ranks with two network cards.
core::Cluster nodes_of_four(int nodes) {
  core::Cluster cluster = costmodel::cpu_cluster(4);
  core::NodeType& type = cluster.groups[0].type;
  type.network_cards = 2;
  type.network_card = {core::Seconds(3e-6), core::BytesPerSecond(3e9)};
  cluster.groups[0].count = nodes;
  cluster.network.kind = core::NetworkKind::Star;
  cluster.network.hop_latency = core::Seconds(0.5e-6);
  return cluster;
}

// Two ranks share a card; both of a node's stages, or all of its ranks, send at once.
TEST(EstimateAgreement, IsExactAcrossNodesThatShareCards) {
  for (const core::Plan& plan : costmodel::small_plans(8)) {
    if (plan.devices() != 8) continue;
    const core::Model model{"small", costmodel::small_llama(), std::nullopt};
    const Pair p = both(plan, model, with_own_streams(nodes_of_four(2)), costmodel::small_job());
    EXPECT_NEAR(p.estimated / p.simulated, 1.0, 1e-9) << core::describe(plan);
  }
}

// ---- parameter servers ---------------------------------------------------------------------

core::Model click_through() {
  core::ClickThrough c;
  c.dense_features = 4;
  c.tables = {
      {.name = "fields", .rows = 60'000, .dim = 8, .lookups_per_sample = 6, .zipf_exponent = 1.05}};
  c.mlp = {64, 32};
  return {"clicks", std::nullopt, c};
}

core::Job click_job() {
  core::Job job;
  job.global_batch = 1920;
  job.sparse_optimizer = core::Optimizer{.kind = core::OptimizerKind::AdaGrad};
  return job;
}

// Servers are taken to go from worker to worker in step. Where they also work, each is spared its
// own turn, so they do not.
TEST(EstimateAgreement, OfServersIsClose) {
  for (const int nodes : {1, 2}) {
    const core::Cluster cluster = nodes == 1 ? costmodel::cpu_cluster(8) : nodes_of_four(2);
    for (const core::Plan& plan : costmodel::sparse_plans(click_through(), cluster, click_job())) {
      const Pair p = both(plan, click_through(), cluster, click_job());
      EXPECT_NEAR(p.estimated / p.simulated, 1.0, plan.sparse->colocated ? 0.15 : 0.05)
          << core::describe(plan) << " on " << nodes << " nodes";
    }
  }
}

}  // namespace
}  // namespace orrery
