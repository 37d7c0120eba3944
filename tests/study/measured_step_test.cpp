#include "study/validate/measured_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/core/temporary_folder.h"

namespace {

using namespace orrery;

// Columns come in any order, an empty field is absent, "10 Gbit/s" is 1.25 GB/s, a quoted field may
// hold commas, and lines with '#' say nothing.
TEST(MeasuredSteps, ReadWhatIsThereAndLeaveOutWhatIsNot) {
  const core::TemporaryFolder folder;
  folder.write("steps.csv",
               "# published\n"
               "device,id,source,devices,micro_batch,node_network_gbit,recompute,assumed,trust,"
               "memory_gib\n"
               "A100-80,one,\"a, b\",16,,10,selective,ffn;vocab,verified_primary,2\n"
               "A100-80,two,\"a, b\",16,4,,,,memory,\n");
  const auto steps = study::read_measured_steps(folder.path() / "steps.csv");
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].source, "a, b");
  EXPECT_FALSE(steps[0].microbatch.has_value());
  EXPECT_DOUBLE_EQ(steps[0].node_network.value().value, 1.25e9);
  EXPECT_EQ(steps[0].recompute, core::Recompute::Selective);
  EXPECT_THAT(steps[0].assumed, testing::ElementsAre("ffn", "vocab"));
  EXPECT_DOUBLE_EQ(steps[0].memory.value().value, 2.0 * 1073741824.0);
  EXPECT_TRUE(steps[0].verified);
  EXPECT_EQ(steps[1].microbatch, 4);
  EXPECT_FALSE(steps[1].verified);
}

std::string message_for(const std::string& text) {
  const core::TemporaryFolder folder;
  folder.write("steps.csv", text);
  try {
    study::read_measured_steps(folder.path() / "steps.csv");
  } catch (const core::ConfigError& error) {
    return error.what();
  }
  return "";
}

// As large as models and clusters may be elsewhere, and no larger: a slip of the hand must not hang.
TEST(MeasuredSteps, RefuseWhatNoModelOrMachineHas) {
  const auto error = [](const std::string& column, const std::string& value) {
    return message_for("device,id,source,devices," + column + "\nA100-80,one,here,8," + value +
                       "\n");
  };
  EXPECT_THAT(error("hidden", "2000000000"), testing::HasSubstr("hidden: found \"2000000000\""));
  EXPECT_THAT(error("layers", "1000000000"),
              testing::HasSubstr("allowed: a whole number from 1 to"));
  EXPECT_THAT(error("sharding_stage", "7"), testing::HasSubstr("from 0 to 3"));
  EXPECT_THAT(error("gated_mlp", "7"), testing::HasSubstr("from 0 to 1"));
  EXPECT_THAT(error("step_time_s", "1e-30"), testing::HasSubstr("step_time_s"));
  EXPECT_THAT(message_for("device,id,source,devices\nA100-80,,here,8\n"),
              testing::HasSubstr(":2: id: is empty"));
}

TEST(MeasuredSteps, NameLineAndColumnOfWhatTheyCannotRead) {
  const std::string head = "id,source,device,devices,recompute\n";
  EXPECT_THAT(message_for(head + "a,b,c,eight,none\n"),
              testing::HasSubstr("steps.csv:2: devices: found \"eight\""));
  EXPECT_THAT(message_for(head + "a,b,c,8,some\n"),
              testing::HasSubstr(":2: recompute: found \"some\"; allowed: none, selective, full"));
  EXPECT_THAT(message_for(head + "a,b,c,8\n"), testing::HasSubstr(":2: 4 fields"));
  EXPECT_THAT(message_for(head + "a,\"b,c,8,none\n"), testing::HasSubstr(":2: a quote"));
  EXPECT_THAT(
      message_for("id,source,device,devices,step_time_s\na,b,c,8,1.5\na,b,c,8,0\n"),
      testing::HasSubstr("steps.csv:3: step_time_s: found \"0\"; allowed: a number above 0"));
  EXPECT_THAT(message_for("id,source\n"), testing::HasSubstr("no column \"device\""));
  EXPECT_THAT(message_for(""), testing::HasSubstr("is empty"));
}

TEST(MeasuredSteps, AColumnIsNamedOnce) {
  EXPECT_THAT(message_for("id,source,device,devices,id\na,s,A100-80,8,b\n"),
              testing::HasSubstr("steps.csv:1: found column \"id\" twice; allowed: once"));
}

TEST(MeasuredSteps, ColumnsThatAreNotReadAreTold) {
  const core::TemporaryFolder folder;
  folder.write("steps.csv", "id,source,device,devices,micro_bach\na,s,A100-80,8,4\n");
  const auto warnings = study::unknown_columns(folder.path() / "steps.csv");
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_THAT(warnings[0], testing::HasSubstr("steps.csv: found column \"micro_bach\", which is "
                                              "not read; known: id, source"));
}

// The same id of one source is one measurement, of another source it is another.
TEST(MeasuredSteps, ARowCountsOnce) {
  const core::TemporaryFolder folder;
  folder.write("steps.csv",
               "id,source,device,devices\na,s,A100-80,8\na,t,A100-80,8\na,s,A100-80,16\n");
  std::vector<std::string> warnings;
  const auto steps =
      study::without_repeated(study::read_measured_steps(folder.path() / "steps.csv"), warnings);
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].devices, 8);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_THAT(warnings[0], testing::AllOf(testing::HasSubstr("steps.csv:4: id: found \"a\""),
                                          testing::HasSubstr("steps.csv:2 of s")));
}

}  // namespace
