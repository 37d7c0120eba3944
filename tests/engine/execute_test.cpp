#include "engine/execute.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/check/memory_profile.h"
#include "core/error.h"
#include "engine/token_data.h"
#include "tests/engine/parity_fixture.h"

namespace orrery::engine {
namespace {

using core::Rank;

core::DensePlan layout(int data, int tensor, int pipeline, core::Recompute recompute) {
  core::DensePlan plan;
  plan.data = data;
  plan.tensor = tensor;
  plan.pipeline = pipeline;
  plan.microbatch = 1;
  plan.recompute = recompute;
  plan.layers_per_stage.assign(static_cast<std::size_t>(pipeline), 2 / pipeline);
  return plan;
}

const core::DensePlan kLayouts[] = {layout(1, 1, 1, core::Recompute::None),
                                    layout(1, 1, 2, core::Recompute::Full),
                                    layout(2, 2, 2, core::Recompute::None)};

core::Trace run(const core::Program& program, const ExecuteOptions& given) {
  const auto tokens = open_token_array(fixture("hf/gpt2/data.safetensors"), 256);
  ExecuteOptions options = given;
  options.tokens = tokens.get();
  return execute(program, tiny_job(), options);
}

core::Program program_of(const core::DensePlan& plan) {
  return lowered(dense_plan(plan), tiny_gpt2(), tiny_job());
}

std::size_t instructions_of(const core::Program& program) {
  std::size_t count = 0;
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    const core::Role& role = program.role_of(Rank(r));
    for (const core::Call& call : role.step) {
      count += role.blocks[call.block.index()].instructions.size();
    }
  }
  return count;
}

// Every instruction of every step has one span; the order on a lane is the Program's; a span starts
// after those that it waits for have ended.
TEST(Execute, TheTraceIsTheProgram) {
  for (const core::DensePlan& plan : kLayouts) {
    const core::Program program = program_of(plan);
    for (const auto seed : {std::optional<std::uint64_t>(), std::optional<std::uint64_t>(5)}) {
      const core::Trace trace = run(program, {.steps = 2, .delay_seed = seed});
      EXPECT_FALSE(trace.simulated);
      ASSERT_EQ(trace.spans.size(), 2 * instructions_of(program));
      for (std::size_t i = 0; i < trace.spans.size(); ++i) {
        const core::Span& span = trace.spans[i];
        EXPECT_LE(span.start, span.transfer);
        EXPECT_LE(span.transfer, span.end);
        if (i > 0 && trace.spans[i - 1].lane == span.lane) {
          EXPECT_LT(trace.spans[i - 1].instruction, span.instruction);
          EXPECT_LE(trace.spans[i - 1].end, span.start);
        }
        for (auto d = trace.dependency_begin[i]; d < trace.dependency_begin[i + 1]; ++d) {
          const auto other = trace.dependencies[static_cast<std::size_t>(d)];
          EXPECT_LE(trace.spans[static_cast<std::size_t>(other)].end, span.start);
        }
      }
    }
  }
}

// Steps follow each other, and each has its loss.
TEST(Execute, StepsAreReported) {
  std::vector<StepReport> reports;
  const core::Trace trace =
      run(program_of(kLayouts[2]),
          {.steps = 3, .on_step = [&](const StepReport& report) { reports.push_back(report); }});
  ASSERT_EQ(trace.steps.size(), 3U);
  ASSERT_EQ(reports.size(), 3U);
  for (std::size_t s = 0; s < 3; ++s) {
    EXPECT_LT(trace.steps[s].start, trace.steps[s].end);
    EXPECT_EQ(reports[s].step, static_cast<int>(s));
    EXPECT_EQ(reports[s].loss, trace.steps[s].loss);
    EXPECT_GT(reports[s].gradient_norm.value(), 0.0);
    EXPECT_GT(reports[s].seconds, 0.0);
  }
}

// The profile allocates in program order; running streams may fetch a microbatch's tokens or a
// message a little earlier or later than that, which moves the peak by less than 2%. After the step
// only what persists is left.
// The profile counts every message that may have come ahead; how many of them do is a matter of time.
TEST(Execute, PeakMemoryIsWithinTheProfiles) {
  for (const core::DensePlan& plan : kLayouts) {
    const core::Program program = program_of(plan);
    const core::Trace trace = run(program, {.steps = 2});
    ASSERT_EQ(trace.counters.size(), program.ranks.size());
    for (const core::Counter& counter : trace.counters) {
      EXPECT_EQ(counter.name, "live memory");
      const core::MemoryProfile profile = core::memory_profile(program.role_of(*counter.rank));
      const double peak = *std::max_element(counter.value.begin(), counter.value.end());
      EXPECT_LE(peak, profile.peak.value);
      EXPECT_GE(peak, 0.8 * profile.peak.value);
      EXPECT_GE(peak, profile.persistent.value);
      EXPECT_EQ(counter.value.back(), profile.persistent.value);
    }
  }
}

TEST(Execute, ProfilesFromTheStepAsked) {
  const core::Program program = program_of(kLayouts[0]);
  const core::Trace trace = run(program, {.steps = 3, .profile_from = 2});
  EXPECT_EQ(trace.spans.size(), instructions_of(program));
  EXPECT_EQ(trace.steps.size(), 3U);
  EXPECT_TRUE(run(program, {.steps = 1, .profile = false}).spans.empty());
}

// Tokens that one rank cannot read: the run ends, on all ranks, with that rank's exception.
TEST(Execute, TheFirstFailureIsTheRuns) {
  struct Broken final : TokenSource {
    void read(int, std::int64_t first, std::int64_t sequences, std::int64_t sequence,
              std::int32_t* tokens, std::int32_t* targets) const override {
      if (first >= 4) throw core::ConfigError("data.bin: token 7 is 999");
      std::fill_n(tokens, sequences * sequence, 0);
      std::fill_n(targets, sequences * sequence, 0);
    }
  };
  const Broken broken;
  const core::Program program = program_of(kLayouts[2]);
  ExecuteOptions options;
  options.tokens = &broken;
  options.steps = 1;
  try {
    execute(program, tiny_job(), options);
    FAIL() << "the run must fail";
  } catch (const core::ConfigError& error) {
    EXPECT_STREQ(error.what(), "data.bin: token 7 is 999");
  }
}

// A program that lacks an instruction's dependency reads what nobody has written, and says so.
TEST(Execute, AReadOfWhatIsNotLiveIsNamed) {
  core::Program program = program_of(kLayouts[0]);
  core::Block& forward = program.roles[0].blocks[1];
  // Frees the first instruction's output right away.
  core::Instruction& first = forward.instructions[0];
  first.frees.push_back(first.writes[0].buffer);
  try {
    run(program, {.steps = 1});
    FAIL() << "the run must fail";
  } catch (const core::SystemError& error) {
    EXPECT_NE(std::string(error.what()).find("not live"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace orrery::engine
