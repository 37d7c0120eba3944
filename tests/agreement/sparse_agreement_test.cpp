// Plans with servers: what is simulated is, instruction by instruction, what runs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "core/check/memory_profile.h"
#include "core/check/program_check.h"
#include "core/config/read.h"
#include "core/lowering/lowering.h"
#include "costmodel/predict_durations.h"
#include "engine/execute.h"
#include "sim/simulate.h"
#include "tests/agreement/trace_agreement.h"
#include "tests/core/plan_name.h"

namespace orrery::agreement {
namespace {

using ::testing::IsEmpty;

constexpr int kSteps = 3;
const std::string kSource = ORRERY_SOURCE_DIR;

struct Case {
  explicit Case(const core::SparsePlan& sparse) {
    plan.sparse = sparse;
    model = core::read_model(kSource + "/configs/models/deepfm-tiny.toml");
    job = core::read_job(kSource + "/configs/jobs/deepfm-tiny.toml");
    job.steps = kSteps;
    job.data = core::Data{core::DataFormat::CriteoTsv,
                          kSource + "/tests/fixtures/parity/criteo_synth.tsv"};
    // One rank a node, so that every message crosses the network.
    cluster = core::read_cluster(kSource + "/configs/clusters/cpu-4node.toml");
    cluster.groups.front().type.devices = 1;
    cluster.groups.front().count = plan.devices();
    program = core::lower(plan, model, cluster, job);
  }

  core::Trace simulated(std::optional<sim::RandomDelays> delays = std::nullopt) const {
    sim::SimulateOptions options;
    options.steps = kSteps;
    options.delays = delays;
    return sim::simulate(program, costmodel::predict_durations(program, cluster, job), cluster,
                         options);
  }
  core::Trace measured(std::optional<std::uint64_t> delay_seed = std::nullopt) const {
    engine::ExecuteOptions options;
    options.threads = 1;
    options.poison = true;
    options.delay_seed = delay_seed;
    return engine::execute(program, job, options);
  }

  core::Plan plan;
  core::Model model;
  core::Job job;
  core::Cluster cluster;
  core::Program program;
};

std::vector<double> losses_of(const core::Trace& trace) {
  std::vector<double> losses;
  for (const core::StepInfo& step : trace.steps) losses.push_back(step.loss.value());
  return losses;
}

class SparseAgreement : public ::testing::TestWithParam<core::SparsePlan> {};

TEST_P(SparseAgreement, BothTracesFollowTheProgramInTheSameOrder) {
  const Case c(GetParam());
  ASSERT_THAT(core::check_program(c.program), IsEmpty());
  const core::Trace simulated = c.simulated();
  const core::Trace measured = c.measured();
  EXPECT_THAT(trace_faults(c.program, simulated), IsEmpty());
  EXPECT_THAT(trace_faults(c.program, measured), IsEmpty());
  for (int step = 0; step < kSteps; ++step) {
    EXPECT_EQ(order_of(simulated, step), order_of(measured, step)) << "step " << step;
  }
}

// Pull → rows, push → server: the same instructions are joined in both.
TEST_P(SparseAgreement, BothTracesHaveTheSameFlows) {
  const Case c(GetParam());
  const auto ends = [](const core::Trace& trace) {
    std::vector<std::string> lines;
    for (const core::Flow& flow : trace.flows) {
      std::string line;
      for (const std::int32_t index : {flow.from_span, flow.to_span}) {
        const core::Span& span = trace.spans[static_cast<std::size_t>(index)];
        const core::Lane& lane = trace.lanes[static_cast<std::size_t>(span.lane)];
        line += std::to_string(lane.rank.value) + " " + std::to_string(span.instruction.step) +
                "." + std::to_string(span.instruction.call) + "." +
                std::to_string(span.instruction.index) + " ";
      }
      lines.push_back(line);
    }
    std::sort(lines.begin(), lines.end());
    return lines;
  };
  const auto expected = ends(c.simulated());
  // Per step and slice each worker has one pull and one push with each server.
  const core::SparsePlan& plan = GetParam();
  EXPECT_EQ(expected.size(),
            static_cast<std::size_t>(2 * kSteps * plan.slices * plan.workers * plan.servers));
  EXPECT_EQ(expected, ends(c.measured()));
}

TEST_P(SparseAgreement, RandomDelaysChangeNeitherOrderNorLoss) {
  const Case c(GetParam());
  const std::vector<std::string> order = order_of(c.simulated(), kSteps - 1);
  const std::vector<double> losses = losses_of(c.measured());
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    const core::Trace simulated =
        c.simulated(sim::RandomDelays{.seed = seed, .most = core::Seconds(1e-3)});
    EXPECT_THAT(trace_faults(c.program, simulated), IsEmpty());
    EXPECT_EQ(order_of(simulated, kSteps - 1), order);
    const core::Trace measured = c.measured(seed);
    EXPECT_THAT(trace_faults(c.program, measured), IsEmpty());
    EXPECT_EQ(order_of(measured, kSteps - 1), order);
    EXPECT_EQ(losses_of(measured), losses);
  }
}

// Without any one of its waits the program is found unsound before it runs; those that only hold a
// load back, so that memory stays bounded, excepted.
TEST_P(SparseAgreement, EveryDependencyIsNeeded) {
  const Case c(GetParam());
  int deleted = 0;
  const auto expect_unsound = [&](const core::Program& program, const std::string& where) {
    ++deleted;
    EXPECT_FALSE(core::check_program(program).empty()) << where;
  };
  for (std::size_t r = 0; r < c.program.roles.size(); ++r) {
    const core::Role& role = c.program.roles[r];
    for (std::size_t b = 0; b < role.blocks.size(); ++b) {
      for (std::size_t i = 0; i < role.blocks[b].instructions.size(); ++i) {
        for (std::size_t w = 0; w < role.blocks[b].instructions[i].waits.size(); ++w) {
          core::Program without = c.program;
          auto& waits = without.roles[r].blocks[b].instructions[i].waits;
          waits.erase(waits.begin() + static_cast<std::ptrdiff_t>(w));
          expect_unsound(without, role.name + ": " + role.blocks[b].instructions[i].label);
        }
      }
    }
    for (std::size_t k = 0; k < role.step.size(); ++k) {
      for (std::size_t w = 0; w < role.step[k].waits.size(); ++w) {
        const int held_back = role.step[k].waits[w].instruction;
        if (role.at(static_cast<int>(k), held_back).stream == core::Stream::Host) continue;
        core::Program without = c.program;
        auto& waits = without.roles[r].step[k].waits;
        waits.erase(waits.begin() + static_cast<std::ptrdiff_t>(w));
        expect_unsound(without, role.name + ": call " + std::to_string(k));
      }
    }
  }
  // Pull after unique keys, rows after the pull, push after the row gradients.
  EXPECT_GE(deleted, 3);
}

// The engine's live memory never exceeds what core::memory_profile says of the role.
TEST_P(SparseAgreement, MemoryStaysWithinThePrediction) {
  const Case c(GetParam());
  int checked = 0;
  for (const core::Counter& counter : c.measured(7).counters) {
    if (counter.name != "live memory") continue;
    const core::MemoryProfile profile = core::memory_profile(c.program.role_of(*counter.rank));
    const double most = *std::max_element(counter.value.begin(), counter.value.end());
    EXPECT_LE(most, profile.peak.value) << "rank " << counter.rank->value;
    EXPECT_GE(most, profile.persistent.value) << "rank " << counter.rank->value;
    ++checked;
  }
  EXPECT_EQ(checked, c.plan.devices());
}

INSTANTIATE_TEST_SUITE_P(
    Plans, SparseAgreement,
    ::testing::Values(core::SparsePlan{.workers = 1, .servers = 1},
                      core::SparsePlan{.workers = 2, .servers = 2},
                      core::SparsePlan{.workers = 4, .servers = 2, .slices = 2},
                      core::SparsePlan{.workers = 1, .servers = 1, .colocated = true, .slices = 4},
                      core::SparsePlan{.workers = 4, .servers = 2, .colocated = true, .slices = 2}),
    core::sparse_plan_name);

// DeepFM's real tables, 33.8 million rows, on 4 workers and 4 servers of configs' CPU cluster.
TEST(SparsePlan, OfConfigsSimulates) {
  const std::filesystem::path file = kSource + "/configs/plans/deepfm-cpu.toml";
  const core::Plan plan = core::read_plan(file);
  const core::Model model = core::read_model(core::resolve_beside(file, plan.model));
  const core::Cluster cluster = core::read_cluster(core::resolve_beside(file, plan.cluster));
  const core::Job job = core::read_job(core::resolve_beside(file, plan.job));
  const core::Program program = core::lower(plan, model, cluster, job);
  EXPECT_THAT(core::check_program(program), IsEmpty());
  const core::Trace trace =
      sim::simulate(program, costmodel::predict_durations(program, cluster, job), cluster);
  EXPECT_THAT(trace_faults(program, trace), IsEmpty());
  EXPECT_GT(trace.duration().value, 0.0);
  // A server keeps a quarter of the rows, 10 + 1 floats each, and as many AdaGrad sums.
  const core::Role& server = program.role_of(core::Rank(4));
  const double rows = std::ceil(static_cast<double>(program.embedding->rows) / 4.0);
  EXPECT_GE(core::memory_profile(server).persistent.value, rows * 11 * 4 * 2);
  EXPECT_LE(core::memory_profile(server).persistent.value, rows * 11 * 4 * 2 + 64e6);
}

}  // namespace
}  // namespace orrery::agreement
