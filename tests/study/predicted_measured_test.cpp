#include "study/predicted_measured.h"

#include <gtest/gtest.h>

#include "core/config/read.h"
#include "study/simulate_plan.h"

namespace {

using namespace orrery;
using namespace orrery::core::literals;

TEST(PredictedMeasured, TakesTheFastestStepAfterTheFirst) {
  core::Trace trace;
  trace.steps = {{0.0_s, 1.0_s, {}}, {1.0_s, 4.0_s, {}}, {4.0_s, 6.0_s, {}}};
  EXPECT_EQ(study::fastest_step(trace), 2.0_s);
  trace.steps.resize(1);
  EXPECT_EQ(study::fastest_step(trace), 1.0_s);
}

// A trace that is the prediction itself differs from it in nothing.
TEST(PredictedMeasured, APredictionAgreesWithItself) {
  const std::string configs = std::string(ORRERY_SOURCE_DIR) + "/configs/";
  study::Inputs inputs = study::read_inputs(configs + "plans/deepfm-cpu.toml");
  const core::Program program = study::lower_plan(inputs);
  sim::SimulateOptions options;
  options.steps = 3;
  const core::Trace trace = study::simulate_plan(inputs, program, options);
  const auto comparison = study::compare_with_prediction(inputs, program, trace);
  EXPECT_NEAR(comparison.error(), 0.0, 1e-9);
  ASSERT_FALSE(comparison.operations.empty());
  for (const auto& operation : comparison.operations) {
    EXPECT_NEAR(operation.error().value, 0.0, 1e-9) << operation.operation;
  }
}

}  // namespace
