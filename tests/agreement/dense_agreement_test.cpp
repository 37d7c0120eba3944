// Simulator and engine are two interpreters of one Program: what they may and may not differ in.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/check/memory_profile.h"
#include "core/check/plan_check.h"
#include "core/check/program_check.h"
#include "core/lowering/lowering.h"
#include "engine/execute.h"
#include "sim/simulate.h"
#include "tests/agreement/dense_plans.h"
#include "tests/agreement/trace_agreement.h"

namespace orrery::agreement {
namespace {

core::Program lowered(const core::Plan& plan, const core::Model& model) {
  return core::lower(plan, model, cpu_cluster(plan.devices()), small_job());
}

/// Every compute instruction takes a time of its own, so that no two orders look alike.
core::Durations made_up_durations(const core::Program& program) {
  core::Durations durations = core::zero_durations(program);
  double next = 1e-6;
  for (auto& role : durations.by_instruction) {
    for (auto& block : role) {
      for (core::Seconds& duration : block) duration = core::Seconds(next += 0.37e-6);
    }
  }
  return durations;
}

core::Trace run(const core::Program& program, const core::Model& model, int steps,
                std::optional<std::uint64_t> delays = {}) {
  const core::Job job = small_job();
  const engine::TokenArray tokens = random_tokens(job, model.transformer->vocab, 20);
  engine::ExecuteOptions options;
  options.tokens = &tokens;
  options.steps = steps;
  options.threads = 1;
  options.poison = true;
  options.delay_seed = delays;
  return engine::execute(program, job, options);
}

std::vector<double> losses(const core::Trace& trace) {
  std::vector<double> result;
  for (const core::StepInfo& step : trace.steps) result.push_back(step.loss.value());
  return result;
}

TEST(DenseAgreement, BothTracesFollowTheProgramInTheSameOrder) {
  for (const auto& [name, plan, model] : cases()) {
    SCOPED_TRACE(name);
    const core::Program program = lowered(plan, model);
    sim::SimulateOptions options;
    options.steps = 2;
    const core::Trace simulated =
        sim::simulate(program, made_up_durations(program), cpu_cluster(plan.devices()), options);
    const core::Trace measured = run(program, model, 2);
    for (const core::Trace* trace : {&simulated, &measured}) {
      const auto faults = trace_faults(program, *trace);
      EXPECT_TRUE(faults.empty()) << (trace->simulated ? "simulated: " : "measured: ")
                                  << faults.front();
    }
    EXPECT_EQ(order_of(simulated, 1), order_of(measured, 1));
  }
}

TEST(DenseAgreement, RandomDelaysChangeNoBitOfTheLosses) {
  std::uint64_t seed = 0;
  for (const auto& [name, plan, model] : cases()) {
    SCOPED_TRACE(name);
    const core::Program program = lowered(plan, model);
    const std::vector<double> undisturbed = losses(run(program, model, 2));
    const core::Trace delayed = run(program, model, 2, ++seed);
    EXPECT_EQ(losses(delayed), undisturbed);
    EXPECT_TRUE(trace_faults(program, delayed).empty());
  }
}

TEST(DenseAgreement, SimulatedDelaysKeepTheOrder) {
  for (const auto& [name, plan, model] : cases()) {
    SCOPED_TRACE(name);
    const core::Program program = lowered(plan, model);
    sim::SimulateOptions options;
    options.delays = sim::RandomDelays{3, core::Seconds(50e-6)};
    const core::Trace trace =
        sim::simulate(program, made_up_durations(program), cpu_cluster(plan.devices()), options);
    const auto faults = trace_faults(program, trace);
    EXPECT_TRUE(faults.empty()) << faults.front();
  }
}

// Twenty steps in float32; sums are taken in another order than on one rank.
TEST(DenseAgreement, EveryPlanGivesTheLossesOfOneRank) {
  for (const core::Model& model : {small_gpt2(), small_llama()}) {
    const std::vector<double> expected =
        losses(run(lowered(one_rank_plan(), model), model, small_job().steps));
    EXPECT_LT(expected.back(), 0.9 * expected.front()) << "the loss must fall for this to tell";
    std::size_t compared = 0;
    for (const auto& [name, plan] : dense_plans()) {
      const auto invalid = core::why_invalid(plan, model, small_job(), plan.devices());
      if (invalid) continue;  // Heads that a degree does not divide.
      ++compared;
      SCOPED_TRACE(model.name + ", " + name);
      const std::vector<double> found = losses(run(lowered(plan, model), model, small_job().steps));
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t s = 0; s < found.size(); ++s) {
        EXPECT_NEAR(found[s] / expected[s], 1.0, 1e-4) << "step " << s;
      }
    }
    EXPECT_GE(compared, dense_plans().size() - 1);
  }
}

// Every row has a slot, whichever ranks route it and whichever hold its experts.
TEST(DenseAgreement, ExpertsGiveTheLossesOfOneRank) {
  const core::Model model = small_mixtral();
  const std::vector<double> expected =
      losses(run(lowered(one_rank_plan(), model), model, small_job().steps));
  EXPECT_LT(expected.back(), 0.9 * expected.front()) << "the loss must fall for this to tell";
  for (const auto& [name, plan] : expert_plans()) {
    SCOPED_TRACE(name);
    const std::vector<double> found = losses(run(lowered(plan, model), model, small_job().steps));
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t s = 0; s < found.size(); ++s) {
      EXPECT_NEAR(found[s] / expected[s], 1.0, 1e-4) << "step " << s;
    }
  }
}

/// A wait that only bounds how early something is fetched or how long something is sent: it bounds
/// memory, no buffer's content needs it.
bool bounds_memory(const core::Role& role, const core::Call& call, const core::CallWait& wait) {
  const core::Instruction& instruction =
      role.blocks[call.block.index()].instructions[static_cast<std::size_t>(wait.instruction)];
  return std::holds_alternative<core::Receive>(instruction.operation) ||
         instruction.stream == core::Stream::Host ||
         std::holds_alternative<core::Send>(role.at(wait.call, wait.other).operation);
}

TEST(DenseAgreement, NoDependencyBetweenCallsCanBeDeletedUnnoticed) {
  int deleted = 0;
  for (const auto& [name, plan, model] : cases()) {
    SCOPED_TRACE(name);
    const core::Program program = lowered(plan, model);
    for (std::size_t r = 0; r < program.roles.size(); ++r) {
      for (std::size_t c = 0; c < program.roles[r].step.size(); ++c) {
        const core::Call& call = program.roles[r].step[c];
        for (std::size_t w = 0; w < call.waits.size(); ++w) {
          if (bounds_memory(program.roles[r], call, call.waits[w])) continue;
          core::Program broken = program;
          auto& waits = broken.roles[r].step[c].waits;
          waits.erase(waits.begin() + static_cast<std::ptrdiff_t>(w));
          EXPECT_FALSE(core::check_program(broken).empty());
          ++deleted;
        }
      }
    }
  }
  EXPECT_GT(deleted, 0);
}

TEST(DenseAgreement, MeasuredPeakMemoryIsAtMostThePredicted) {
  for (const auto& [name, plan, model] : cases()) {
    SCOPED_TRACE(name);
    const core::Program program = lowered(plan, model);
    const core::Trace trace = run(program, model, 2);
    for (const core::Counter& counter : trace.counters) {
      if (counter.name != "live memory") continue;
      const double measured = *std::max_element(counter.value.begin(), counter.value.end());
      const double predicted = core::memory_profile(program.role_of(*counter.rank)).peak.value;
      EXPECT_LE(measured, predicted) << "rank " << counter.rank->value;
      EXPECT_GE(measured, 0.8 * predicted) << "rank " << counter.rank->value;
    }
  }
}

}  // namespace
}  // namespace orrery::agreement
