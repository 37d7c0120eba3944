#include "costmodel/estimate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/check/program_check.h"
#include "core/lowering/lowering.h"
#include "costmodel/dense_estimator.h"
#include "costmodel/predict_durations.h"
#include "tests/costmodel/small_inputs.h"

namespace orrery::costmodel {
namespace {

using namespace core::literals;

core::Model model_of(const core::Transformer& transformer) {
  return {"small", transformer, std::nullopt};
}

Estimate estimated(const core::Plan& plan, const core::Model& model, const core::Cluster& cluster,
                   const core::Job& job) {
  const Outcome outcome = estimate(plan, model, cluster, job);
  const auto* infeasible = std::get_if<Infeasible>(&outcome);
  if (infeasible != nullptr) {
    ADD_FAILURE() << core::describe(plan) << ": " << infeasible->why;
    return {};
  }
  return std::get<Estimate>(outcome);
}

core::Seconds sum(const TimeByTerm& time) {
  core::Seconds total;
  for (const core::Seconds t : time) total += t;
  return total;
}

// One rank communicates with nobody: its step is the sum of its instructions.
TEST(Estimate, OfOneRankIsTheSumOfItsInstructions) {
  for (const core::Transformer& transformer : {small_gpt2(), small_llama()}) {
    const core::Model model = model_of(transformer);
    const core::Cluster cluster = cpu_cluster(1);
    const core::Job job = small_job();
    for (const core::Plan& plan : small_plans(transformer.layers)) {
      if (plan.dense->devices() != 1) continue;
      const core::Program program = core::lower(plan, model, cluster, job);
      const core::Durations durations = predict_durations(program, cluster, job);
      core::Seconds expected;
      for (const core::Call& call : program.roles[0].step) {
        const auto& block = program.roles[0].blocks[call.block.index()];
        for (std::size_t i = 0; i < block.instructions.size(); ++i) {
          if (block.instructions[i].stream == core::Stream::Host) continue;  // Beside the rest.
          expected += durations.of(core::RoleId(0), call.block, static_cast<int>(i));
        }
      }
      const Estimate e = estimated(plan, model, cluster, job);
      // The clearing of loss and norm, two elements, is not counted.
      EXPECT_NEAR(e.step.value / expected.value, 1.0, 1e-3) << core::describe(plan);
    }
  }
}

/// One plan for each kind of communication within a pass.
std::vector<core::Plan> plans_that_communicate() {
  std::vector<core::Plan> plans;
  for (core::DensePlan dense :
       {core::DensePlan{.tensor = 2},
        core::DensePlan{.context = 2, .context_method = core::ContextMethod::Ring},
        core::DensePlan{.context = 2, .context_method = core::ContextMethod::AllToAll},
        core::DensePlan{.sharding = 2, .sharding_stage = 3, .tensor = 2, .context = 2},
        core::DensePlan{.sharding = 2, .sharding_stage = 3, .pipeline = 2},
        core::DensePlan{.sharding = 2, .sharding_stage = 2},
        core::DensePlan{.sharding = 2, .sharding_stage = 3}}) {
    dense.layers_per_stage = core::even_layers(8, dense.pipeline);
    dense.axis_order.insert(dense.axis_order.begin() + 1, core::Axis::Context);
    plans.emplace_back().dense = dense;
  }
  return plans;
}

TEST(Estimate, TermsAddUpToTheStep) {
  std::vector<core::Plan> plans = small_plans(8);
  for (core::Plan& plan : plans_that_communicate()) plans.push_back(std::move(plan));
  for (const core::Plan& plan : plans) {
    const Estimate e =
        estimated(plan, model_of(small_llama()), cpu_cluster(plan.devices()), small_job());
    EXPECT_NEAR(sum(e.time).value, e.step.value, 1e-12) << core::describe(plan);
    for (const core::Seconds t : e.time) EXPECT_GE(t.value, -1e-12) << core::describe(plan);
  }
}

// With links ten thousand times slower everything that a pass communicates is exposed, as the term
// of the streams that the compute stream waits for; what a plan does not communicate takes no time.
TEST(Estimate, EachKindOfCommunicationHasItsTerm) {
  const std::vector<TimeTerm> terms = {TimeTerm::TensorCommunication,
                                       TimeTerm::ContextCommunication, TimeTerm::ParameterGather};
  for (const core::Plan& plan : plans_that_communicate()) {
    const core::DensePlan& dense = *plan.dense;
    core::Cluster slow = cpu_cluster(plan.devices());
    slow.groups[0].type.device_link.bandwidth = core::BytesPerSecond(1e6);
    const Estimate e = estimated(plan, model_of(small_llama()), slow, small_job());
    const std::vector<bool> expected = {dense.tensor > 1, dense.context > 1,
                                        dense.sharding_stage == 3};
    for (std::size_t t = 0; t < terms.size(); ++t) {
      const double share = e.time[static_cast<std::size_t>(terms[t])] / e.step;
      if (expected[t]) {
        EXPECT_GT(share, 0.01) << core::describe(plan) << time_term_name(terms[t]);
      } else {
        EXPECT_EQ(share, 0.0) << core::describe(plan) << time_term_name(terms[t]);
      }
    }
  }
}

// speed = speed of one device · devices · scaling efficiency.
TEST(Estimate, SpeedIsTheProductOfOneDeviceDevicesAndEfficiency) {
  for (const core::Plan& plan : small_plans(8)) {
    const Estimate e =
        estimated(plan, model_of(small_gpt2()), cpu_cluster(plan.devices()), small_job());
    EXPECT_NEAR(e.speed_of_one * e.devices * e.scaling_efficiency / *e.tokens_per_second, 1.0, 1e-9)
        << core::describe(plan);
    EXPECT_LE(e.scaling_efficiency, 1.0);
  }
}

// One device that computes alone takes whole sequences: bound by products of any shape, its speed is
// the same however a plan cuts them, but for what the cut adds (a tenth at most).
TEST(Estimate, SpeedOfOneIsOfWholeSequences) {
  const auto speed = [](core::DensePlan dense) {
    dense.layers_per_stage = {8};
    core::Plan plan;
    plan.dense = dense;
    core::Cluster cluster = cpu_cluster(plan.devices());
    core::Device& device = cluster.groups[0].type.device;
    device.gemm = {.ceiling = 1.0, .half_m = 0, .half_n = 0, .half_k = 0};
    device.attention = {.forward = 1.0, .backward = 1.0, .half_rows = 0};
    device.launch = core::Seconds(0);
    device.memory_bandwidth = core::BytesPerSecond(1e15);
    return estimated(plan, model_of(small_llama()), cluster, small_job()).speed_of_one;
  };
  const double one = speed({});
  for (const core::ContextMethod method :
       {core::ContextMethod::Ring, core::ContextMethod::AllToAll}) {
    EXPECT_NEAR(
        speed({.context = 2, .context_method = method, .axis_order = {core::Axis::Context}}) / one,
        1.0, 0.1);
  }
}

// Every rate doubled and every latency halved: half the time, the same shares.
TEST(Estimate, AMachineTwiceAsFastTakesHalfTheTime) {
  for (const core::Plan& plan : small_plans(8)) {
    const core::Cluster slow = cpu_cluster(plan.devices());
    core::Cluster fast = slow;
    core::NodeType& type = fast.groups[0].type;
    type.device.memory_bandwidth *= 2.0;
    for (auto& [precision, peak] : type.device.peak) peak *= 2.0;
    type.device.launch *= 0.5;
    type.device_link.latency *= 0.5;
    type.device_link.bandwidth *= 2.0;
    const core::Model model = model_of(small_llama());
    const Estimate a = estimated(plan, model, slow, small_job());
    const Estimate b = estimated(plan, model, fast, small_job());
    EXPECT_NEAR(b.step.value / a.step.value, 0.5, 1e-12) << core::describe(plan);
    EXPECT_NEAR(b.scaling_efficiency, a.scaling_efficiency, 1e-9);
  }
}

// Two messages one after the other take as long as one over a link of twice the latency and half the
// bandwidth. Stages of one rank each exchange nothing else.
TEST(Estimate, MessagesThatTakeTurnsTakeTwiceAsLong) {
  core::DensePlan plan;
  plan.pipeline = 4;
  plan.layers_per_stage = {2, 2, 2, 2};
  const core::Model model = model_of(small_llama());
  const core::Cluster cluster = cpu_cluster(4);
  core::Cluster slower = cluster;
  slower.groups[0].type.device_link.latency *= 2.0;
  slower.groups[0].type.device_link.bandwidth *= 0.5;
  const core::Job job = small_job();
  const auto pipeline = static_cast<std::size_t>(TimeTerm::PipelineCommunication);
  const auto alone = DenseEstimator(model, cluster, job).estimate(plan).time[pipeline];
  const auto in_turn =
      DenseEstimator(model, cluster, job, {.messages_take_turns = true}).estimate(plan);
  EXPECT_GT(in_turn.time[pipeline], alone);
  EXPECT_NEAR(
      in_turn.time[pipeline] / DenseEstimator(model, slower, job).estimate(plan).time[pipeline],
      1.0, 1e-9);
}

// A rank that sends a share of each message: half the bytes over the link, and then the two shares
// gathered within the tensor group.
TEST(Estimate, SplitMessagesAreSharesThatAreGathered) {
  core::DensePlan plan;
  plan.tensor = plan.pipeline = 2;
  plan.layers_per_stage = {4, 4};
  const core::Model model = model_of(small_llama());
  const core::Cluster cluster = cpu_cluster(4);
  core::Job job = small_job();
  job.global_batch = 1;
  const auto exposed = [&](EstimateOptions options) {
    return DenseEstimator(model, cluster, job, options)
        .estimate(plan)
        .time[static_cast<std::size_t>(TimeTerm::PipelineCommunication)];
  };
  // One microbatch: one message forward, one back.
  const core::Bytes message(32.0 * 64 * 4);
  const FabricCost fabric = fabric_cost(cluster);
  const GroupCost group = GroupCosts(cluster).of(plan).of(core::GroupKind::Tensor);
  const core::Seconds share = message_time(message / 2, true, true, 2, fabric);
  const core::Seconds gather =
      collective_time(core::CollectiveKind::AllGather, message, group, fabric);
  EXPECT_NEAR(exposed({}) / (2 * message_time(message, true, true, 2, fabric)), 1.0, 1e-9);
  EXPECT_NEAR(exposed({.messages_split = true}) / (2 * (share + gather)), 1.0, 1e-9);
}

// Two ranks on one core take turns: computing takes twice as long.
TEST(Estimate, CpuRanksShareTheCores) {
  core::Plan plan;
  plan.dense = core::DensePlan{};
  plan.dense->data = 2;
  plan.dense->layers_per_stage = {8};
  core::Cluster cluster = cpu_cluster(2);
  const core::Model model = model_of(small_gpt2());
  const Estimate own = estimated(plan, model, cluster, small_job());
  cluster.groups[0].type.cores = 1;
  const Estimate shared = estimated(plan, model, cluster, small_job());
  const auto compute = static_cast<std::size_t>(TimeTerm::Compute);
  EXPECT_NEAR(shared.time[compute] / own.time[compute], 2.0, 1e-9);
}

TEST(Estimate, APlanThatDoesNotFitNamesItsStageAndBytes) {
  core::Plan plan;
  plan.dense = core::DensePlan{};
  plan.dense->layers_per_stage = {8};
  core::Cluster cluster = cpu_cluster(1);
  cluster.groups[0].type.device.memory = core::Bytes(1e6);
  const Outcome outcome = estimate(plan, model_of(small_gpt2()), cluster, small_job());
  const auto* infeasible = std::get_if<Infeasible>(&outcome);
  ASSERT_NE(infeasible, nullptr);
  EXPECT_EQ(infeasible->reason, Infeasible::Reason::Memory);
  EXPECT_GT(infeasible->needed->value, 1e6);
  EXPECT_NE(infeasible->why.find("stage 0"), std::string::npos);
}

TEST(Estimate, AnInvalidPlanSaysWhy) {
  core::Plan plan;
  plan.dense = core::DensePlan{};
  plan.dense->tensor = 3;
  plan.dense->layers_per_stage = {8};
  const Outcome outcome = estimate(plan, model_of(small_gpt2()), cpu_cluster(3), small_job());
  const auto* infeasible = std::get_if<Infeasible>(&outcome);
  ASSERT_NE(infeasible, nullptr);
  EXPECT_EQ(infeasible->reason, Infeasible::Reason::Invalid);
  EXPECT_NE(infeasible->why.find("dense.tensor"), std::string::npos);
}

// 8 layers of 4·64² + 3·64·256 weights and the 1024·64 of the head; 12·8·4·16·32 of attention.
TEST(ModelFlops, CountEveryMatrixParameterSixTimes) {
  const core::Transformer model = small_llama();
  const double matrices = 8.0 * (4 * 64 * 64 + 3 * 64 * 256) + 1024 * 64;
  const double norms = 17 * 64;
  EXPECT_DOUBLE_EQ(model_flops_per_token(model, 32), 6 * (matrices + norms) + 12.0 * 8 * 64 * 32);
}

// 2 $/h and 300 W for 2 devices.
TEST(Estimate, MoneyAndEnergyFollowTheStep) {
  core::Plan plan;
  plan.dense = core::DensePlan{};
  plan.dense->data = 2;
  plan.dense->layers_per_stage = {8};
  core::Cluster cluster = cpu_cluster(2);
  cluster.groups[0].type.device.price_per_hour = 2.0;
  cluster.groups[0].type.device.power_watts = 300.0;
  const Estimate e = estimated(plan, model_of(small_gpt2()), cluster, small_job());
  EXPECT_DOUBLE_EQ(*e.dollars_per_step, 2.0 * 2 * e.step.value / 3600);
  EXPECT_DOUBLE_EQ(*e.joules_per_step, 2.0 * 300 * e.step.value);
}

TEST(Explain, EveryTermHasItsText) {
  for (const core::Plan& plan : small_plans(8)) {
    const core::Model model = model_of(small_gpt2());
    const core::Cluster cluster = cpu_cluster(plan.devices());
    const Estimate e = estimated(plan, model, cluster, small_job());
    double seconds = 0.0;
    double bytes = 0.0;
    for (const Explanation& line : explain(e, plan, model, cluster, small_job())) {
      EXPECT_FALSE(line.text.empty()) << line.term;
      (line.unit == Explanation::Unit::Seconds ? seconds : bytes) += line.value;
    }
    EXPECT_NEAR(seconds, e.step.value, 1e-12);
    EXPECT_NEAR(bytes, total(e.memory).value, 1e-3);
  }
}

// ---- parameter servers ---------------------------------------------------------------------

core::Model click_through() {
  core::ClickThrough c;
  c.dense_features = 4;
  c.tables = {
      {.name = "fields", .rows = 6000, .dim = 8, .lookups_per_sample = 6, .zipf_exponent = 1.05}};
  c.mlp = {32, 16};
  return {"clicks", std::nullopt, c};
}

core::Job click_job() {
  core::Job job;
  job.global_batch = 512;
  job.optimizer.kind = core::OptimizerKind::Adam;
  job.sparse_optimizer = core::Optimizer{.kind = core::OptimizerKind::AdaGrad};
  return job;
}

core::Plan servers_and_workers(int workers, int servers, int slices) {
  core::Plan plan;
  plan.sparse = core::SparsePlan{};
  plan.sparse->workers = workers;
  plan.sparse->servers = servers;
  plan.sparse->slices = slices;
  return plan;
}

TEST(SparseEstimate, TermsAddUpAndSpeedIsTheProduct) {
  for (const int slices : {1, 2, 4}) {
    const core::Plan plan = servers_and_workers(2, 2, slices);
    const Estimate e = estimated(plan, click_through(), cpu_cluster(4), click_job());
    EXPECT_NEAR(sum(e.time).value, e.step.value, 1e-12);
    EXPECT_NEAR(e.speed_of_one * e.devices * e.scaling_efficiency / e.samples_per_second, 1.0,
                1e-9);
  }
}

// The rows of a table are cut over the servers: twice the servers, about half the rows on each.
TEST(SparseEstimate, ServersShareTheTables) {
  const auto weights = [](int servers) {
    core::Model model = click_through();
    model.click_through->tables[0].rows = 1'200'000;  // Far more than a worker's own memory.
    const Estimate e =
        estimated(servers_and_workers(2, servers, 1), model, cpu_cluster(2 + servers), click_job());
    return e.memory[static_cast<std::size_t>(MemoryTerm::Weights)].value;
  };
  EXPECT_NEAR(weights(2) / weights(4), 2.0, 0.01);
}

}  // namespace
}  // namespace orrery::costmodel
