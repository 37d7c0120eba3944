// Plans: reading, refusing, writing and reading back.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/config/read.h"
#include "core/config/write.h"
#include "core/error.h"
#include "tests/core/temporary_folder.h"

namespace orrery::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const char* const kPlan = R"(name = "p"
model = "../models/gpt/config.json"
cluster = "../clusters/pod.toml"
job = "job.toml"

[dense]
data = 2
tensor = 2
pipeline = 2
layers_per_stage = [3, 1]
microbatch = 4
schedule = "gpipe"
recompute = "full"
axis_order = ["tensor", "pipeline", "sharding", "data"]
)";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string error_of(const std::string& content) {
  const TemporaryFolder folder;
  const auto file = folder.write("plan.toml", content);
  try {
    read_plan(file);
  } catch (const ConfigError& error) {
    return std::string(error.what()).substr(file.string().size());
  }
  return "no error";
}

TEST(PlanFile, IsReadWithOneForDegreesNotNamed) {
  const TemporaryFolder folder;
  const Plan plan = read_plan(folder.write("plan.toml", kPlan));
  EXPECT_EQ(plan.model, "../models/gpt/config.json");
  ASSERT_TRUE(plan.dense.has_value());
  EXPECT_FALSE(plan.sparse.has_value());
  EXPECT_EQ(plan.dense->devices(), 8);
  EXPECT_EQ(plan.dense->sharding, 1);
  EXPECT_EQ(plan.dense->sharding_stage, 0);
  EXPECT_EQ(plan.dense->schedule, PipelineSchedule::GPipe);
  EXPECT_EQ(plan.dense->recompute, Recompute::Full);
  EXPECT_THAT(plan.dense->layers_per_stage, ElementsAre(3, 1));
  EXPECT_THAT(plan.dense->axis_order,
              ElementsAre(Axis::Tensor, Axis::Pipeline, Axis::Sharding, Axis::Data));
}

TEST(PlanFile, RoundTrips) {
  const TemporaryFolder folder;
  Plan plan = read_plan(folder.write("plan.toml", kPlan));
  plan.dense->sharding = 4;
  plan.dense->sharding_stage = 3;
  plan.dense->context = 5;
  plan.dense->expert = 2;
  plan.dense->sequence_parallel = true;
  plan.dense->virtual_stages = 3;
  plan.dense->schedule = PipelineSchedule::ZeroBubble1p;
  plan.dense->pass_times =
      PassTimes{Seconds(1.5e-3), Seconds(1.25e-3), Seconds(1e-3), Seconds(7e-5), 0.4375};
  plan.dense->recompute_layers = 2;
  plan.dense->recompute_whole = true;
  plan.dense->attention = AttentionKind::Plain;
  plan.dense->context_method = ContextMethod::AllToAll;
  plan.dense->bucket = Bytes(25e6);
  plan.dense->overlap_gradients = false;
  plan.dense->recompute = Recompute::Selective;
  plan.sparse = SparsePlan{3, 2, true, UpdateMode::BoundedStaleness, 6};
  write_plan(folder.path() / "again.toml", plan);
  const Plan again = read_plan(folder.path() / "again.toml");
  EXPECT_EQ(again.name, plan.name);
  EXPECT_EQ(again.model, plan.model);
  EXPECT_EQ(again.cluster, plan.cluster);
  EXPECT_EQ(again.job, plan.job);
  EXPECT_EQ(describe(again), describe(plan));
  EXPECT_EQ(again.dense->layers_per_stage, plan.dense->layers_per_stage);
  EXPECT_EQ(again.dense->axis_order, plan.dense->axis_order);
  EXPECT_EQ(again.dense->sharding_stage, 3);
  EXPECT_EQ(again.dense->pass_times, plan.dense->pass_times);
  EXPECT_EQ(again.dense->recompute_layers, 2);
  EXPECT_TRUE(again.dense->recompute_whole);
  EXPECT_EQ(again.dense->attention, AttentionKind::Plain);
  EXPECT_EQ(again.dense->context_method, ContextMethod::AllToAll);
  EXPECT_EQ(again.dense->bucket, Bytes(25e6));
  EXPECT_FALSE(again.dense->overlap_gradients);
  EXPECT_EQ(again.sparse->workers, 3);
  EXPECT_EQ(again.sparse->slices, 6);
  EXPECT_TRUE(again.sparse->colocated);
}

TEST(PlanFile, PutsContextBesideTensorByDefault) {
  const TemporaryFolder folder;
  std::string text = replaced(kPlan, "tensor = 2", "tensor = 2\ncontext = 2");
  const auto order = text.find("axis_order");
  text.erase(order, text.find('\n', order) - order);
  const Plan plan = read_plan(folder.write("plan.toml", text));
  EXPECT_THAT(plan.dense->axis_order,
              ElementsAre(Axis::Tensor, Axis::Context, Axis::Sharding, Axis::Pipeline, Axis::Data));
}

TEST(PlanFileError, NamesPlaceFindingAndRule) {
  EXPECT_THAT(error_of(replaced(kPlan, "tensor = 2", "tensor = 0")),
              HasSubstr(":8:10: dense.tensor: is 0; allowed are 1 to"));
  EXPECT_THAT(error_of(replaced(kPlan, "tensor = 2", "tensor = 99999999999999")),
              HasSubstr("dense.tensor: is 99999999999999"));
  EXPECT_THAT(error_of(replaced(kPlan, "[3, 1]", "[3, 0]")),
              HasSubstr("dense.layers_per_stage: holds 0; allowed are 1 to"));
  EXPECT_THAT(error_of(replaced(kPlan, "\"gpipe\"", "\"gpip\"")),
              HasSubstr("dense.schedule: \"gpip\" is unknown; allowed are \"gpipe\", \"1f1b\""));
  EXPECT_THAT(error_of(replaced(kPlan, "\"pipeline\", \"sharding\"", "\"pipe\", \"sharding\"")),
              HasSubstr("dense.axis_order: \"pipe\" is unknown"));
  EXPECT_THAT(error_of(replaced(kPlan, "microbatch", "micro_batch")),
              HasSubstr("dense.microbatch: is missing; is \"micro_batch\" a typing error?"));
  EXPECT_THAT(error_of(std::string(kPlan) + "servers = 2\n"),
              HasSubstr("dense.servers: unknown key; allowed are attention, axis_order"));
  EXPECT_THAT(error_of("model = \"m\"\ncluster = \"c\"\njob = \"j\"\n"),
              HasSubstr("dense: is missing; a plan needs [dense], [sparse] or both"));
  EXPECT_THAT(error_of(""), HasSubstr(":1:1: model: is missing"));
}

}  // namespace
}  // namespace orrery::core
