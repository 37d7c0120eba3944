// What disturbs ranks and links, on programs whose times are known.

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "core/trace/waits.h"
#include "sim/simulate.h"
#include "tests/sim/lowered_programs.h"
#include "tests/sim/small_programs.h"

namespace orrery::sim {
namespace {

using namespace core::literals;
using core::Rank;
using core::Seconds;

constexpr double kRelative = 1e-9;

Seconds step_of(const ProgramBuilder& b, const core::Cluster& cluster,
                const core::Perturbations& perturbations, int steps = 1) {
  SimulateOptions options;
  options.steps = steps;
  options.perturbations = perturbations;
  return simulate_step(b.program, b.durations, cluster, options);
}

ProgramBuilder one_message() {
  ProgramBuilder b(2);
  b.send(0, 1, 1.0_GB);
  b.receive(1, 0, 1.0_GB);
  return b;
}

// Of one step the message takes 2 α + S/β; over a link with a quarter of its bandwidth 2 α + 4 S/β; in
// the other steps as before.
TEST(Perturbations, SlowLinksSlowTheirSteps) {
  const core::Cluster cluster = star(2, 0.5_us, 50.0_GBps);
  const ProgramBuilder b = one_message();
  const core::LinkId out = *core::Topology(cluster).find_link("node 0 card 0 out");
  core::Perturbations slow;
  slow.slow_links = {{out, 0.25, {0, 0}}};
  EXPECT_NEAR(step_of(b, cluster, slow, 1).value, 1e-6 + 4 * 0.02, kRelative);
  EXPECT_NEAR(step_of(b, cluster, slow, 2).value, 1e-6 + 0.02, kRelative);
}

// A ring of four switches: two wires of 20 GB/s instead of one of 50.
TEST(Perturbations, FailedLinksAreGoneAround) {
  core::Cluster cluster = star(4, 0.5_us, 50.0_GBps);
  cluster.network.kind = core::NetworkKind::Torus;
  cluster.network.torus = {{4}, 1, {1.0_us, 20.0_GBps}};
  ProgramBuilder b(4);
  b.send(0, 1, 1.0_GB);
  b.receive(1, 0, 1.0_GB);
  core::Perturbations failed;
  failed.failed_links = {{*core::Topology(cluster).find_link("switch 0 to 1"), {}}};
  const double cards = 2 * 0.5e-6;
  EXPECT_NEAR(step_of(b, cluster, {}).value, cards + 1e-6 + 0.05, kRelative);
  EXPECT_NEAR(step_of(b, cluster, failed).value, cards + 3e-6 + 0.05, kRelative);
}

// Fair shares with one flow of another job: half of the card, or what that does not ask for.
TEST(Perturbations, OthersTakeTheirShare) {
  const core::Cluster cluster = star(3, 0.5_us, 50.0_GBps);
  ProgramBuilder b = one_message();
  const auto with = [&](core::BytesPerSecond rate) {
    core::Perturbations others;
    others.background = {{Rank(0), Rank(2), rate}};
    return step_of(b, cluster, others).value;
  };
  EXPECT_NEAR(with(100.0_GBps), 1e-6 + 1e9 / 25e9, kRelative);
  EXPECT_NEAR(with(10.0_GBps), 1e-6 + 1e9 / 40e9, kRelative);
}

// A rank alone: its computing takes 1.5 times as long, in the second step only.
TEST(Perturbations, StragglersComputeLonger) {
  const core::Cluster cluster = star(1, 0.5_us, 50.0_GBps);
  ProgramBuilder b(1);
  b.compute(0, 10e-6);
  core::Perturbations slow;
  slow.stragglers = {{Rank(0), 1.5, {1, 1}}};
  EXPECT_NEAR(step_of(b, cluster, slow, 1).value, 10e-6, 1e-15);
  EXPECT_NEAR(step_of(b, cluster, slow, 2).value, 15e-6, 1e-15);
}

// e^(σ·z): of many draws the mean of the logarithms is 0 and their standard deviation σ; the seed
// decides, and a step with it is the same every time.
TEST(Perturbations, JitterIsLogNormal) {
  const core::Cluster cluster = star(1, 0.5_us, 50.0_GBps);
  constexpr double kDeviation = 0.2;
  constexpr int kDraws = 4000;
  double sum = 0;
  double squares = 0;
  ProgramBuilder b(1);
  b.compute(0, 1e-3);
  SimulateOptions options;
  options.steps = kDraws;
  options.perturbations.jitter = core::Jitter{kDeviation, 7};
  const core::Trace trace = simulate(b.program, b.durations, cluster, options);
  EXPECT_EQ(trace, simulate(b.program, b.durations, cluster, options));
  for (const core::Span& span : trace.spans) {
    const double log = std::log((span.end - span.start).value / 1e-3);
    sum += log;
    squares += log * log;
  }
  // Four standard errors of the mean, σ/√n, and of the deviation, σ/√(2n).
  EXPECT_NEAR(sum / kDraws, 0, 4 * kDeviation / std::sqrt(kDraws));
  EXPECT_NEAR(std::sqrt(squares / kDraws), kDeviation, 4 * kDeviation / std::sqrt(2.0 * kDraws));
}

// Of eight ranks that reduce in pairs, one is slow: the others wait for it more than for any other.
TEST(Perturbations, OthersWaitForTheStraggler) {
  const core::Cluster cluster = gpu_cluster(4, 2, 2);
  core::DensePlan plan;
  plan.data = 2;
  plan.tensor = 2;
  plan.pipeline = 2;
  const core::Program program = lowered_gpt2(plan, 4, 4, cluster);
  SimulateOptions options;
  options.folded = true;
  options.perturbations.stragglers = {{Rank(3), 1.5, {}}};
  const core::Trace trace = simulate(program, varied_durations(program, 20.0_us), cluster, options);
  const auto waited = core::waited_for(trace, 0);
  ASSERT_FALSE(waited.empty());
  EXPECT_EQ(waited.front().rank, Rank(3));
  EXPECT_EQ(waited.front().ranks, 1);
}

}  // namespace
}  // namespace orrery::sim
