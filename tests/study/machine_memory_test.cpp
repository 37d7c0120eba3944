#include "study/machine_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "study/simulate_plan.h"

namespace orrery::study {
namespace {

const std::string kPlans = std::string(ORRERY_SOURCE_DIR) + "/configs/plans/";

// What is foretold is what the trace then holds, span by span.
TEST(MachineMemory, KnowsTheSpansOfATraceBeforehand) {
  for (const auto& [plan, folded] :
       {std::pair("deepfm-cpu.toml", false), {"llama-3-70b-512.toml", true}}) {
    const Inputs inputs = read_inputs(kPlans + plan);
    const core::Program program = lower_plan(inputs);
    sim::SimulateOptions options;
    options.steps = 2;
    options.folded = folded;
    const core::Trace trace = simulate_plan(inputs, program, options);
    EXPECT_EQ(simulated_spans(program, inputs.cluster, options),
              static_cast<std::int64_t>(trace.spans.size()))
        << plan;
    if (!folded) {
      EXPECT_EQ(2 * executed_spans(program), static_cast<std::int64_t>(trace.spans.size()));
    }
  }
}

TEST(MachineMemory, RefusesMoreThanThereIs) {
  const auto available = available_memory();
  if (!available) GTEST_SKIP() << "this system does not say how much memory is available";
  EXPECT_GT(available->value, 0);
  EXPECT_NO_THROW(require_memory(core::Bytes(1), "a byte", "none"));
  try {
    require_memory(core::Bytes(1024.0 * 1024 * 1024 * 1e9), "the run", "use less");
    FAIL() << "a billion GiB";
  } catch (const core::SystemError& error) {
    EXPECT_THAT(error.what(), testing::ContainsRegex("the run needs 97656[23] TiB of memory, but "
                                                     "[0-9.]+ GiB are available; use less"));
  }
}

// Spans are numbered with 32 bits.
TEST(MachineMemory, RefusesATraceThatCannotBeNumbered) {
  EXPECT_THROW(trace_memory(std::int64_t{1} << 31), core::SystemError);
  EXPECT_GT(trace_memory((std::int64_t{1} << 31) - 1).value, 0);
}

}  // namespace
}  // namespace orrery::study
