#include "study/validate/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "study/validate/source_sums.h"

namespace {

using namespace orrery;
using study::MeasuredStep;
using study::RowResult;

study::Conventions conventions() {
  const auto folder = std::filesystem::path(ORRERY_SOURCE_DIR) / "data/validation";
  return {study::read_machines(folder / "machines.toml"),
          study::read_frameworks(folder / "frameworks.toml")};
}

/// A small GPT on one node of 8.
MeasuredStep small_step() {
  MeasuredStep step;
  step.id = "row";
  step.source = "source";
  step.architecture = "gpt";
  step.device = "V100-32";  // Of which nothing is left open.
  step.framework = "unheard of";
  step.layers = 4;
  step.hidden = 1024;
  step.heads = 16;
  step.vocab = 50304;
  step.sequence = 1024;
  step.devices = 8;
  step.devices_per_node = 8;
  step.data = 4;
  step.tensor = 2;
  step.pipeline = 1;
  step.sharding_stage = 1;
  step.microbatch = 2;
  step.global_batch = 32;
  step.recompute = core::Recompute::None;
  step.attention = core::AttentionKind::Flash;
  step.precision = core::DType::Float16;
  step.step = core::Seconds(1.0);
  return step;
}

study::Readings readings(const MeasuredStep& step) {
  return study::readings_of(step, conventions());
}

TEST(Readings, OfARowThatSaysAllIsOnePlan) {
  const study::Readings all = readings(small_step());
  ASSERT_EQ(all.skipped, "");
  ASSERT_EQ(all.readings.size(), 1U);
  const core::DensePlan& plan = all.readings.front().plan.dense.value();
  EXPECT_EQ(plan.sharding, 4);  // ZeRO 1 over the 4 data ways.
  EXPECT_EQ(plan.data, 1);
  EXPECT_EQ(plan.tensor, 2);
  EXPECT_EQ(plan.microbatch, 2);
  EXPECT_EQ(all.readings.front().cluster.devices(), 8);
  EXPECT_TRUE(all.open.empty());
}

// 32 sequences over 4 ways are 8 each: microbatches of 1, 2, 4 or 8.
TEST(Readings, OfAnOpenColumnAreAllItsPossibleValues) {
  MeasuredStep step = small_step();
  step.microbatch.reset();
  const study::Readings all = readings(step);
  EXPECT_EQ(all.readings.size(), 4U);
  EXPECT_THAT(all.open, testing::ElementsAre("micro_batch"));
}

TEST(Readings, AreRefusedWithTheReason) {
  MeasuredStep step = small_step();
  step.layers.reset();
  EXPECT_EQ(readings(step).skipped, "no layers");
  step = small_step();
  step.device = "abacus";
  EXPECT_EQ(readings(step).skipped, "no machine file for device abacus");
  step = small_step();
  step.tensor = 3;
  EXPECT_THAT(readings(step).skipped, testing::HasSubstr("devices"));
}

// An entry that lists the step's source goes before one that lists none.
TEST(Conventions, OfASourceGoBeforeThoseOfAName) {
  study::Framework all, one;
  all.name = one.name = "framework";
  one.sources = {"source"};
  one.half_gradients = true;
  MeasuredStep step = small_step();
  step.framework = "framework";
  EXPECT_TRUE(study::framework_of({all, one}, step).half_gradients);
  step.source = "another";
  EXPECT_FALSE(study::framework_of({one, all}, step).half_gradients);
  EXPECT_FALSE(study::framework_of({one}, step).half_gradients);
}

// 78 layers on 12 stages: eleven of 7 and one of 1. 70 + 2 on 12: six each, of which the first and
// the last are the embeddings. 8 on 4: two each. 9 on 8 would leave stages empty: as evenly as it goes.
TEST(FilledLayers, FillStagesOneAfterTheOther) {
  EXPECT_EQ(study::filled_layers(78, 12), std::vector<int>({7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 1}));
  EXPECT_EQ(study::filled_layers(70, 12), std::vector<int>({5, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 5}));
  EXPECT_EQ(study::filled_layers(8, 4), std::vector<int>({2, 2, 2, 2}));
  EXPECT_EQ(study::filled_layers(9, 8), core::even_layers(9, 8));
  EXPECT_EQ(study::filled_layers(7, 1), std::vector<int>({7}));
}

// What may be two things is read both ways: twice as many readings, named.
TEST(Readings, OfAMachineThatMayBeTwoThingsAreBoth) {
  MeasuredStep step = small_step();
  step.device = "H100-80";
  const study::Readings all = readings(step);
  EXPECT_EQ(all.readings.size(), 2U);
  EXPECT_THAT(all.open, testing::ElementsAre("gemm efficiency"));
  const auto gemm = [&](std::size_t i) {
    return all.readings[i].cluster.groups.front().type.device.gemm;
  };
  EXPECT_TRUE(gemm(0).tiles.has_value());
  EXPECT_FALSE(gemm(1).tiles.has_value());
}

// A host that waits for each kernel leaves the device idle while it issues the next.
TEST(Readings, OfBlockingLaunchesHaveTheirGaps) {
  study::Conventions blocking = conventions();
  study::Framework framework;
  framework.name = "unheard of";
  framework.launch = core::Seconds(20e-6);
  framework.blocking_launches = true;
  blocking.frameworks.push_back(framework);
  const auto reading = study::readings_of(small_step(), blocking).readings.front();
  EXPECT_EQ(reading.cluster.groups.front().type.device.gap, core::Seconds(20e-6));
  const auto plain = readings(small_step()).readings.front();
  EXPECT_DOUBLE_EQ((reading.cluster.collectives.base - plain.cluster.collectives.base).value,
                   20e-6);
}

// An error is what a measurement lies beyond the interval of its readings.
TEST(Validate, CountsOnlyWhatLiesBeyondTheInterval) {
  MeasuredStep open = small_step();
  open.microbatch.reset();
  const auto first = study::validate({open}, conventions(), {}).rows.front();
  ASSERT_LT(first.fastest, first.slowest);
  const auto error_of = [&](core::Seconds measured) {
    MeasuredStep step = open;
    step.step = measured;
    return study::validate({step}, conventions(), {}).rows.front().error;
  };
  EXPECT_EQ(error_of((first.fastest + first.slowest) * 0.5), 0.0);
  EXPECT_NEAR(error_of(first.fastest * 0.5), 1.0, 1e-12);   // fastest/measured − 1
  EXPECT_NEAR(error_of(first.slowest * 2.0), -0.5, 1e-12);  // slowest/measured − 1
}

// A memory that may be in GB or in GiB is wrong only by what both lie beyond the interval.
TEST(Validate, TakesTheNearerOfGbAndGib) {
  MeasuredStep step = small_step();
  const auto first = study::validate({step}, conventions(), {}).rows.front();
  ASSERT_LT(first.least_memory, first.most_memory);
  const auto error_of = [&](core::Bytes measured, std::vector<std::string> assumed) {
    step.memory = measured;
    step.assumed = std::move(assumed);
    return study::validate({step}, conventions(), {}).rows.front().memory_error.value();
  };
  constexpr double kRatio = 1e9 / 1073741824.0;
  EXPECT_NEAR(error_of(first.most_memory * 1.25, {}), -0.2, 1e-12);  // most/measured − 1
  EXPECT_NEAR(error_of(first.most_memory * 1.25, {"memory_gib"}), 0.8 / kRatio - 1, 1e-12);
  EXPECT_EQ(error_of(first.most_memory * 1.02, {"memory_gib"}), 0.0);
  EXPECT_NEAR(error_of(first.least_memory * 0.5, {"memory_gib"}), 1.0, 1e-12);
}

RowResult row(double measured, double predicted, int tensor, bool verified = true) {
  RowResult result;
  result.measured = small_step();
  result.measured.tensor = tensor;
  result.measured.step = core::Seconds(measured);
  result.measured.verified = verified;
  result.estimate.step = result.fastest = result.slowest = core::Seconds(predicted);
  result.error = predicted / measured - 1.0;
  return result;
}

// Errors +10%, −20%, 0: mean of magnitudes 10%, bias −10/3 %, median 10%, worst the second. The
// fastest prediction (0.8 of the second row) took 1.0 where the best took 0.9: regret 1/9.
TEST(SourceSums, AreMeansOfTheVerifiedRows) {
  const std::vector<RowResult> rows = {row(1.0, 1.1, 1), row(1.0, 0.8, 2), row(0.9, 0.9, 4),
                                       row(1.0, 9.0, 8, false)};
  const auto sources = study::source_sums(rows);
  ASSERT_EQ(sources.size(), 1U);
  const study::SourceResult& s = sources.front();
  EXPECT_EQ(s.rows, 3);
  EXPECT_EQ(s.recalled, 1);
  EXPECT_NEAR(s.mean_error.value(), 0.1, 1e-12);
  EXPECT_NEAR(s.bias.value(), -0.1 / 3.0, 1e-12);
  EXPECT_NEAR(s.median_error.value(), 0.1, 1e-12);
  EXPECT_EQ(s.worst, 1U);
  EXPECT_NEAR(s.regret.value(), 1.0 / 9.0, 1e-12);
  EXPECT_EQ(s.regret_groups, 1);
}

// Of a plan that was measured twice the faster time counts: 0.9 of tensor 1 against 1.0 of tensor 2,
// which is predicted as faster: regret 1/9. Rows of one plan alone are no group.
TEST(SourceSums, RegretComparesPlansNotRows) {
  const auto twice = study::source_sums({row(1.2, 1.0, 1), row(0.9, 1.0, 1), row(1.0, 0.8, 2)});
  EXPECT_NEAR(twice.front().regret.value(), 1.0 / 9.0, 1e-12);
  const auto one = study::source_sums({row(1.2, 1.0, 1), row(0.9, 0.8, 1)});
  EXPECT_FALSE(one.front().regret.has_value());
}

// A step that a constant was fitted to is shown but not counted.
TEST(Validate, LeavesOutWhatItWasFittedTo) {
  MeasuredStep step = small_step();
  study::Conventions fitted = conventions();
  study::Framework unheard_of;
  unheard_of.name = "unheard of";
  unheard_of.fitted = {.source = "source", .layers = 4, .hidden = 1024};
  fitted.frameworks.push_back(unheard_of);
  const auto validation = study::validate({step}, fitted, {});
  EXPECT_TRUE(validation.rows.front().fitted);
  EXPECT_EQ(validation.sources.front().rows, 0);
  EXPECT_EQ(validation.sources.front().fitted, 1);
  step.layers = 5;
  EXPECT_EQ(study::validate({step}, fitted, {}).sources.front().rows, 1);
}

TEST(SourceSums, AreNotThereWithoutRows) {
  RowResult skipped;
  skipped.measured = small_step();
  skipped.skipped = "no plan";
  const auto s = study::source_sums({skipped}).front();
  EXPECT_EQ(s.rows, 0);
  EXPECT_EQ(s.skipped, 1);
  EXPECT_FALSE(s.mean_error || s.bias || s.regret || s.worst);
}

}  // namespace
