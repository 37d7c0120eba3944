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
  cluster.collectives.library = core::CollectiveLibrary::AllPairs;
  return cluster;
}

// Messages that take exactly 5 us + bytes / 4 GB/s.
TEST(FabricFit, FindsLatencyAndBandwidthOfMessages) {
  std::vector<study::FabricSample> samples;
  for (const double bytes : {4.0, 4096.0, 1e6, 16e6}) {
    samples.push_back({std::nullopt, core::Bytes(bytes), 5.0_us + core::Bytes(bytes) / 4.0_GBps});
  }
  const study::FabricFit fit = study::fit_fabric(memory_node(2), samples);
  EXPECT_NEAR(fit.link.latency.value, 5e-6, 1e-9);
  EXPECT_NEAR(fit.link.bandwidth.value / 4e9, 1.0, 1e-4);
}

// The engine's algorithms over n = 4 ranks with α = 2 us, β = 8 GB/s, sums at r = 20 GB/s:
//   all-reduce up to 8 KiB  α + 3·S/β + 4·S/r        all-gather      α + 3/4·S/β
//   all-reduce beyond       2·α + 2·3/4·S/β + S/r    reduce-scatter  α + 3/4·S/β + S/r
TEST(FabricFit, FindsTheLinkAndTheSumsBehindCollectives) {
  const double alpha = 2e-6, beta = 8e9, r = 20e9;
  std::vector<study::FabricSample> samples;
  for (const double s : {64.0, 8192.0, 65536.0, 1e6, 16e6}) {
    using Kind = core::CollectiveKind;
    const double all =
        s <= 8192 ? alpha + 3 * s / beta + 4 * s / r : 2 * alpha + 1.5 * s / beta + s / r;
    samples.push_back({Kind::AllReduce, core::Bytes(s), core::Seconds(all)});
    samples.push_back(
        {Kind::ReduceScatter, core::Bytes(s), core::Seconds(alpha + 0.75 * s / beta + s / r)});
    samples.push_back({Kind::AllGather, core::Bytes(s), core::Seconds(alpha + 0.75 * s / beta)});
  }
  const study::FabricFit fit = study::fit_fabric(memory_node(4), samples);
  EXPECT_NEAR(fit.link.latency.value, alpha, 1e-9 * alpha);
  EXPECT_NEAR(fit.link.bandwidth.value / beta, 1.0, 1e-6);
  ASSERT_TRUE(fit.reduction);
  EXPECT_NEAR(fit.reduction->value / r, 1.0, 1e-6);
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
