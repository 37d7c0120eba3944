#include "study/fabric_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/check/program_check.h"

namespace {

using namespace orrery;
using namespace orrery::core::literals;

core::Cluster memory_node(int ranks) {
  core::NodeType type;
  type.name = "host";
  type.device.memory_bandwidth = core::BytesPerSecond(1e15);
  type.devices = ranks;
  type.cores = ranks;
  type.fabric = core::NodeFabric::Memory;
  core::Cluster cluster;
  cluster.name = "host";
  cluster.groups = {{type, 1}};
  return cluster;
}

// Messages that take exactly 5 us + bytes / 4 GB/s.
TEST(DeviceLinkFit, FindsLatencyAndBandwidthOfMessages) {
  std::vector<study::FabricSample> samples;
  for (const double bytes : {4.0, 4096.0, 1e6, 16e6}) {
    samples.push_back({std::nullopt, core::Bytes(bytes), 5.0_us + core::Bytes(bytes) / 4.0_GBps});
  }
  const core::LinkCost link = study::fit_device_link(memory_node(2), samples);
  EXPECT_NEAR(link.latency.value, 5e-6, 1e-9);
  EXPECT_NEAR(link.bandwidth.value / 4e9, 1.0, 1e-4);
}

// A ring all-reduce over 4 ranks takes 2·3·α + 2·3/4·S/β (core/network/collective_algorithm.h), and
// with equal links no algorithm of the library needs less data.
TEST(DeviceLinkFit, FindsTheLinkBehindAllReduces) {
  std::vector<study::FabricSample> samples;
  for (const double bytes : {1e6, 4e6, 16e6, 64e6}) {
    samples.push_back({core::CollectiveKind::AllReduce, core::Bytes(bytes),
                       core::Seconds(6 * 2e-6 + 1.5 * bytes / 8e9)});
  }
  const core::LinkCost link = study::fit_device_link(memory_node(4), samples);
  EXPECT_NEAR(link.latency.value, 2e-6, 2e-8);
  EXPECT_NEAR(link.bandwidth.value / 8e9, 1.0, 1e-3);
}

TEST(FabricProbe, IsASoundProgram) {
  EXPECT_THAT(core::check_program(study::fabric_probe(4, {8, 16})), testing::IsEmpty());
}

// 5 instructions for each size; the sends of one role are the receives of the other.
TEST(FabricProbe, PairsEveryMessage) {
  const core::Program probe = study::fabric_probe(4, {8, 16});
  ASSERT_EQ(probe.roles.size(), 2U);
  const auto& even = probe.roles[0].blocks[0].instructions;
  const auto& odd = probe.roles[1].blocks[0].instructions;
  ASSERT_EQ(even.size(), 10U);
  ASSERT_EQ(odd.size(), 10U);
  for (std::size_t i = 0; i < even.size(); ++i) {
    const bool sends = std::holds_alternative<core::Send>(even[i].operation);
    EXPECT_EQ(sends, std::holds_alternative<core::Receive>(odd[i].operation));
  }
  EXPECT_EQ(probe.ranks[2].peers.front(), core::Rank(3));
  EXPECT_EQ(probe.ranks[3].peers.front(), core::Rank(2));
}

}  // namespace
