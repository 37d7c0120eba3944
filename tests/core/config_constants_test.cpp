#include <gtest/gtest.h>

#include "core/config/constants.h"
#include "tests/core/temporary_folder.h"

namespace orrery::core {
namespace {

TEST(Constants, AreThoseWithASourceInTheClusterAndItsDevices) {
  const TemporaryFolder folder;
  folder.write("device.toml", R"(
memory = { value = "80 GB", source = "data sheet" }
price = "1 USD/h"
[peak]
source = "white paper"
float32 = "19.5 TFLOP/s"
bfloat16 = "312 TFLOP/s"
)");
  const auto cluster = folder.write("cluster.toml", R"(
[network]
efficiency = { value = 0.96, source = "an issue" }
[[nodes]]
device = "device.toml"
)");
  const auto constants = read_constants(cluster);
  ASSERT_EQ(constants.size(), 3U);
  EXPECT_EQ(constants[0].name, "network.efficiency");
  EXPECT_EQ(constants[0].value, "0.96");
  EXPECT_EQ(constants[0].source, "an issue");
  EXPECT_EQ(constants[1].name, "device.memory");
  EXPECT_EQ(constants[1].value, "80 GB");
  EXPECT_EQ(constants[2].name, "device.peak");
  EXPECT_EQ(constants[2].value, "bfloat16 312 TFLOP/s, float32 19.5 TFLOP/s");
}

}  // namespace
}  // namespace orrery::core
