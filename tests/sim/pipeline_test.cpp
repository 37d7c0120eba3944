// Lowered programs: pipeline schedules against their closed forms, folding against every rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/check/memory_profile.h"
#include "sim/fold.h"
#include "sim/simulate.h"
#include "tests/sim/lowered_programs.h"
#include "tests/sim/small_programs.h"

namespace orrery::sim {
namespace {

using namespace core::literals;
using core::DensePlan;
using core::PipelineSchedule;
using core::Program;
using core::Seconds;

/// Links that cost nothing against seconds of compute.
core::Cluster free_links(int ranks) {
  return one_node(ranks, {Seconds(0), core::BytesPerSecond(1e30)});
}

DensePlan plan_of(int data, int sharding, int tensor, int pipeline,
                  PipelineSchedule schedule = PipelineSchedule::OneFOneB) {
  DensePlan plan;
  plan.data = data;
  plan.sharding = sharding;
  plan.tensor = tensor;
  plan.pipeline = pipeline;
  plan.schedule = schedule;
  return plan;
}

// p equal stages, m microbatches of tF + tB each: (m + p − 1)·(tF + tB) for GPipe and 1F1B, so a
// stage is idle for (p − 1)/(m + p − 1) of the step.
TEST(Pipeline, UniformStagesHaveTheClosedFormBubble) {
  for (const auto schedule : {PipelineSchedule::GPipe, PipelineSchedule::OneFOneB}) {
    for (const int p : {1, 2, 4}) {
      for (const int m : {1, 3, 4, 8}) {
        const core::Cluster cluster = free_links(p);
        const Program program = lowered_gpt2(plan_of(1, 1, 1, p, schedule), 4, m, cluster);
        const core::Durations durations = uniform_durations(program, Seconds(1), Seconds(2));
        const double step = simulate_step(program, durations, cluster).value;
        EXPECT_NEAR(step, (m + p - 1) * 3.0, 1e-9 * step) << p << " stages, " << m;
        const double bubble = 1 - m * 3.0 / step;
        EXPECT_NEAR(bubble, (p - 1.0) / (m + p - 1.0), 1e-9);
      }
    }
  }
}

// Chunks of half a stage: m·(tF + tB) + (p − 1)·(tF + tB)/2, whichever stage each runs on.
TEST(Pipeline, InterleavedStagesHalveTheBubble) {
  for (const int p : {2, 4}) {
    const core::Cluster cluster = free_links(p);
    DensePlan plan = plan_of(1, 1, 1, p, PipelineSchedule::Interleaved);
    plan.virtual_stages = 2;
    const int m = 2 * p;
    const Program program = lowered_gpt2(plan, 2 * p, m, cluster);
    const core::Durations durations = uniform_durations(program, Seconds(0.5), Seconds(1));
    EXPECT_NEAR(simulate_step(program, durations, cluster).value, m * 3.0 + (p - 1) * 1.5, 1e-9);
  }
}

// ZB-H1: (p − 1)·(F + B − W) beside the work.
TEST(Pipeline, ZeroBubbleH1HasTheClosedFormBubble) {
  for (const int p : {2, 4}) {
    for (const int m : {p, 2 * p + 1}) {
      const core::Cluster cluster = free_links(p);
      const Program program =
          lowered_gpt2(plan_of(1, 1, 1, p, PipelineSchedule::ZeroBubbleH1), p, m, cluster);
      const core::Durations durations =
          uniform_durations(program, Seconds(1), Seconds(1.25), Seconds(0.75));
      EXPECT_NEAR(simulate_step(program, durations, cluster).value, m * 3.0 + (p - 1) * 1.5, 1e-9);
    }
  }
}

/// Spans of the ranks that both traces show, without the lanes' numbers.
using Times = std::map<std::pair<core::Rank, core::InstructionRef>, std::array<double, 3>>;
Times times_of(const core::Trace& trace) {
  Times times;
  for (const core::Span& s : trace.spans) {
    const core::Rank rank = trace.lanes[static_cast<std::size_t>(s.lane)].rank;
    times[{rank, s.instruction}] = {s.start.value, s.transfer.value, s.end.value};
  }
  return times;
}

/// Largest difference between what a folded simulation and every rank give, relative to the step.
double folding_error(const Program& program, const core::Durations& durations,
                     const core::Cluster& cluster) {
  SimulateOptions options;
  options.steps = 2;
  const core::Trace every = simulate(program, durations, cluster, options);
  options.folded = true;
  const core::Trace folded = simulate(program, durations, cluster, options);
  EXPECT_LT(folded.spans.size(), every.spans.size());
  const Times all = times_of(every);
  double worst = 0;
  for (const auto& [key, times] : times_of(folded)) {
    for (std::size_t i = 0; i < 3; ++i)
      worst = std::max(worst, std::abs(times[i] - all.at(key)[i]));
  }
  return worst / every.duration().value;
}

// On one node no two ranks share a link: the folded times are those of every rank.
TEST(Folding, IsExactWithoutContention) {
  for (const DensePlan& plan : {plan_of(4, 1, 1, 2), plan_of(1, 2, 2, 2), plan_of(2, 2, 2, 1),
                                plan_of(2, 1, 2, 2, PipelineSchedule::GPipe)}) {
    const core::Cluster cluster = one_node(plan.devices(), {3.0_us, 1.0_GBps});
    const Program program = lowered_gpt2(plan, 4, 4, cluster);
    EXPECT_LT(folding_error(program, varied_durations(program, 20.0_us), cluster), 1e-9);
  }
}

// Two devices share each card and four each trunk, all ranks of a role do the same at the same
// time: their flows share the links evenly, as the folded one assumes.
TEST(Folding, CarriesTheSiblingsOnSharedCards) {
  for (const DensePlan& plan :
       {plan_of(4, 1, 4, 1), plan_of(2, 2, 4, 1), plan_of(1, 1, 4, 4), plan_of(2, 1, 4, 2)}) {
    const core::Cluster cluster = gpu_cluster(4, 4, 2);
    const Program program = lowered_gpt2(plan, 4, 4, cluster);
    EXPECT_LT(folding_error(program, varied_durations(program, 20.0_us), cluster), 1e-9);
  }
}

// What a rank computes takes longer beside its own collectives, as that of the ranks it stands for does.
TEST(Folding, KeepsWhatComputingTakesLongerBesideCommunication) {
  for (const DensePlan& plan : {plan_of(4, 1, 4, 1), plan_of(2, 2, 4, 1), plan_of(2, 1, 4, 2)}) {
    core::Cluster cluster = gpu_cluster(4, 4, 2);
    const Program program = lowered_gpt2(plan, 4, 4, cluster);
    const core::Durations durations = varied_durations(program, 20.0_us);
    const double alone = simulate_step(program, durations, cluster).value;
    for (core::NodeGroup& group : cluster.groups) group.type.device.beside_communication = 1.5;
    EXPECT_GT(simulate_step(program, durations, cluster).value, alone);
    EXPECT_LT(folding_error(program, durations, cluster), 1e-9);
  }
}

TEST(Folding, StandsForEveryRankOnce) {
  const core::Cluster cluster = gpu_cluster(4, 4, 2);
  const Program program = lowered_gpt2(plan_of(2, 1, 4, 2), 4, 4, cluster);
  const auto fold = folded_ranks(program, core::Topology(cluster));
  ASSERT_TRUE(fold.has_value());
  EXPECT_EQ(fold->simulated.size(), program.roles.size());
  std::vector<int> times(program.ranks.size(), 0);
  for (std::size_t i = 0; i < fold->simulated.size(); ++i) {
    ++times[fold->simulated[i].index()];
    for (const core::Rank other : fold->others[i]) {
      ++times[other.index()];
      EXPECT_EQ(program.ranks[other.index()].role, program.ranks[fold->simulated[i].index()].role);
    }
  }
  EXPECT_EQ(std::count(times.begin(), times.end(), 1), 16);
}

DensePlan with_context(DensePlan plan, int context, core::ContextMethod method) {
  plan.context = context;
  plan.context_method = method;
  plan.axis_order = {core::Axis::Tensor, core::Axis::Context, core::Axis::Sharding,
                     core::Axis::Pipeline, core::Axis::Data};
  return plan;
}

DensePlan with_ring(DensePlan plan, int context) {
  return with_context(plan, context, core::ContextMethod::Ring);
}

// An all-to-all is a collective like others: one rank per stage.
TEST(Folding, OfAllToAllsIsExact) {
  const auto with_exchange = [](DensePlan plan, int context) {
    return with_context(plan, context, core::ContextMethod::AllToAll);
  };
  for (const DensePlan& plan :
       {with_exchange(plan_of(4, 1, 2, 1), 2), with_exchange(plan_of(2, 1, 2, 2), 2),
        with_exchange(plan_of(4, 1, 1, 1), 4)}) {
    const core::Cluster cluster = gpu_cluster(4, 4, 2);
    const Program program = lowered_gpt2(plan, 4, 4, cluster);
    const auto fold = folded_ranks(program, core::Topology(cluster));
    ASSERT_TRUE(fold.has_value());
    EXPECT_EQ(fold->simulated.size(), program.roles.size());
    EXPECT_LT(folding_error(program, varied_durations(program, 20.0_us), cluster), 1e-9);
  }
}

// A ring is kept whole: a rank for each stage and position in it.
TEST(Folding, KeepsRingsWhole) {
  for (const DensePlan& plan :
       {with_ring(plan_of(2, 1, 1, 1), 4), with_ring(plan_of(4, 1, 1, 1), 2),
        with_ring(plan_of(1, 2, 2, 1), 2), with_ring(plan_of(2, 1, 2, 2), 2)}) {
    const core::Cluster cluster = one_node(plan.devices(), {3.0_us, 1.0_GBps});
    const Program program = lowered_gpt2(plan, 4, 4, cluster);
    const auto fold = folded_ranks(program, core::Topology(cluster));
    ASSERT_TRUE(fold.has_value());
    EXPECT_EQ(fold->simulated.size(), static_cast<std::size_t>(plan.pipeline * plan.context));
    EXPECT_LT(folding_error(program, varied_durations(program, 20.0_us), cluster), 1e-9);
  }
}

// Four devices a node, two a card, two nodes a leaf. Rings within a node; over two nodes, where hops
// within a node and between nodes take turns; and over both leaves.
TEST(Folding, OfRingsIsExactWhereverTheyLieAlike) {
  for (const DensePlan& plan :
       {with_ring(plan_of(4, 1, 2, 1), 2), with_ring(plan_of(2, 2, 2, 1), 2),
        with_ring(plan_of(2, 1, 2, 2), 2), with_ring(plan_of(2, 1, 2, 1), 4),
        with_ring(plan_of(1, 1, 4, 1), 4), with_ring(plan_of(1, 2, 1, 2), 4)}) {
    const core::Cluster cluster = gpu_cluster(4, 4, 2);
    const Program program = lowered_gpt2(plan, 4, 4, cluster);
    EXPECT_TRUE(folded_ranks(program, core::Topology(cluster)).has_value());
    EXPECT_LT(folding_error(program, varied_durations(program, 20.0_us), cluster), 1e-9);
  }
}

// Rings of two on nodes of three devices: every other ring lies in two nodes.
TEST(Folding, DoesNotFoldRingsThatLieDifferently) {
  const core::Cluster cluster = gpu_cluster(4, 3, 1);
  const Program program = lowered_gpt2(with_ring(plan_of(6, 1, 1, 1), 2), 4, 4, cluster);
  EXPECT_FALSE(folded_ranks(program, core::Topology(cluster)).has_value());
  const core::Durations durations = varied_durations(program, 20.0_us);
  SimulateOptions options;
  options.folded = true;
  EXPECT_EQ(simulate(program, durations, cluster, options), simulate(program, durations, cluster));
}

// Four CPU ranks share two cores: one that stands for four takes the cores four times.
TEST(Folding, TakesTheCoresOfAllThatOneStandsFor) {
  const core::Cluster cluster = cpu_node(4);
  for (const DensePlan& plan : {plan_of(4, 1, 1, 1), plan_of(2, 1, 1, 2)}) {
    const Program program = lowered_gpt2(plan, 4, 4, cluster);
    EXPECT_LT(folding_error(program, varied_durations(program, 20.0_us), cluster), 1e-9);
  }
}

// Servers answer workers one after another, so workers differ in time.
TEST(Folding, DoesNotFoldServers) {
  const core::Cluster cluster = cpu_node(4);
  const Program program = lowered_deepfm(2, 2, cluster);
  EXPECT_FALSE(folded_ranks(program, core::Topology(cluster)).has_value());
  SimulateOptions options;
  options.folded = true;
  const core::Durations durations = varied_durations(program, 20.0_us);
  EXPECT_EQ(simulate(program, durations, cluster, options), simulate(program, durations, cluster));
}

// The static check bounds what a rank can hold at once; a run comes near it, and ends with what is
// persistent.
TEST(MemoryCounter, StaysWithinTheProvenPeak) {
  for (const auto schedule : {PipelineSchedule::GPipe, PipelineSchedule::OneFOneB}) {
    const core::Cluster cluster = free_links(2);
    const Program program = lowered_gpt2(plan_of(1, 1, 1, 2, schedule), 4, 6, cluster);
    const core::Trace trace = simulate(program, varied_durations(program, 20.0_us), cluster);
    ASSERT_EQ(trace.counters.size(), 2u);
    for (const core::Counter& counter : trace.counters) {
      const double simulated = *std::max_element(counter.value.begin(), counter.value.end());
      const core::MemoryProfile proven = core::memory_profile(program.role_of(*counter.rank));
      EXPECT_LE(simulated, proven.peak.value);
      EXPECT_GE(simulated, 0.95 * proven.peak.value);
      EXPECT_DOUBLE_EQ(counter.value.back(), proven.persistent.value);
    }
  }
}

// Delays that respect the dependencies never make a step shorter than it is without them.
TEST(RandomDelays, OnlyLengthenASerialProgram) {
  const core::Cluster cluster = free_links(1);
  const Program program = lowered_gpt2(plan_of(1, 1, 1, 1), 4, 4, cluster);
  const core::Durations durations = varied_durations(program, 20.0_us);
  const Seconds plain = simulate_step(program, durations, cluster);
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    SimulateOptions options;
    options.delays = RandomDelays{seed, 50.0_us};
    EXPECT_GT(simulate_step(program, durations, cluster, options), plain);
  }
}

}  // namespace
}  // namespace orrery::sim
