#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/config/read.h"
#include "core/error.h"
#include "core/network/topology.h"
#include "tests/core/temporary_folder.h"

namespace orrery::core {
namespace {

using namespace literals;
using ::testing::HasSubstr;

Cluster two_nodes() {
  NodeType type;
  type.devices = 4;
  type.device_link = {1.0_us, 300.0_GBps};
  type.network_cards = 2;
  type.network_card = {1.0_us, 25.0_GBps};
  Cluster cluster;
  cluster.name = "pair";
  cluster.groups = {{type, 2}};
  cluster.network.kind = NetworkKind::Star;
  return cluster;
}

const char* const kAll = R"([[straggler]]
rank = 3
slowdown = 1.3
steps = [1, 2]

[[straggler]]
node = 1
slowdown = 1.1

[[slow_link]]
link = "node 1 card 0 out"
bandwidth = 0.5

[[failed_link]]
link = "node 0 card 1 in"
steps = [0, 0]

[[background]]
from = 0
to = 5
rate = "20 GB/s"

[jitter]
deviation = 0.05
seed = 3
)";

TEST(PerturbationsFile, IsRead) {
  const TemporaryFolder folder;
  const Cluster cluster = two_nodes();
  const Topology topology(cluster);
  const Perturbations all = read_perturbations(folder.write("slow.toml", kAll), cluster);
  ASSERT_EQ(all.stragglers.size(), 5U);  // Rank 3, and the four of node 1.
  EXPECT_EQ(all.stragglers[0].rank, Rank(3));
  EXPECT_FALSE(all.stragglers[0].steps.has(0));
  EXPECT_TRUE(all.stragglers[0].steps.has(2));
  EXPECT_EQ(all.stragglers[4].rank, Rank(7));
  EXPECT_TRUE(all.stragglers[4].steps.has(1000));
  EXPECT_EQ(topology.name(all.slow_links.at(0).link), "node 1 card 0 out");
  EXPECT_EQ(all.slow_links[0].share, 0.5);
  EXPECT_EQ(topology.name(all.failed_links.at(0).link), "node 0 card 1 in");
  EXPECT_EQ(all.background.at(0).rate, 20.0_GBps);
  EXPECT_EQ(all.jitter->seed, 3U);
}

TEST(PerturbationsFileError, NamesPlaceFindingAndRule) {
  const auto error = [](const std::string& content) {
    const TemporaryFolder folder;
    const auto file = folder.write("slow.toml", content);
    try {
      read_perturbations(file, two_nodes());
    } catch (const ConfigError& e) {
      return std::string(e.what()).substr(file.string().size());
    }
    return std::string("no error");
  };
  EXPECT_THAT(error("[[straggler]]\nrank = 8\nslowdown = 2\n"),
              HasSubstr(":2:8: straggler.rank: is 8; allowed are 0 to 7"));
  EXPECT_THAT(error("[[straggler]]\nnode = 2\nslowdown = 2\n"), HasSubstr("allowed are 0 to 1"));
  EXPECT_THAT(error("[[straggler]]\nrank = 1\nslowdown = 2\nsteps = [2, 1]\n"),
              HasSubstr("straggler.steps: must be [first, last], counted from 0"));
  EXPECT_THAT(error("[[slow_link]]\nlink = \"node 0 card 2 out\"\nbandwidth = 0.5\n"),
              HasSubstr(":2:8: slow_link.link: \"node 0 card 2 out\" is no link of cluster pair; "
                        "links are called \"node 0 device 0 out\""));
  EXPECT_THAT(error("[[background]]\nfrom = 1\nto = 1\nrate = \"1 GB/s\"\n"),
              HasSubstr("background.to: is the rank that the flow leaves"));
  EXPECT_THAT(error("[[background]]\nfrom = 1\nto = 2\nrate = 5\n"), HasSubstr("background.rate"));
  EXPECT_THAT(error("[jitter]\ndeviation = -1\n"), HasSubstr("jitter.deviation: is -1"));
  EXPECT_THAT(error("[[stragler]]\nrank = 1\n"), HasSubstr("stragler: unknown key"));
  EXPECT_THAT(error(""), HasSubstr("straggler: is missing"));
}

}  // namespace
}  // namespace orrery::core
