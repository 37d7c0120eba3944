#include "core/cluster.h"

#include <gtest/gtest.h>

namespace orrery::core {
namespace {

// 3 nodes of 2 devices, then 2 nodes of 8: ranks 0..5 and 6..21.
Cluster mixed() {
  NodeType small;
  small.name = "small";
  small.devices = 2;
  NodeType large;
  large.name = "large";
  large.devices = 8;
  return Cluster{"mixed", {{small, 3}, {large, 2}}, {}, {}};
}

TEST(Cluster, CountsNodesAndDevices) {
  EXPECT_EQ(mixed().nodes(), 5);
  EXPECT_EQ(mixed().devices(), 22);
}

TEST(Cluster, FindsTheNodeOfARank) {
  const Cluster cluster = mixed();
  EXPECT_EQ(cluster.node_of(0), 0);
  EXPECT_EQ(cluster.node_of(5), 2);
  EXPECT_EQ(cluster.node_of(6), 3);
  EXPECT_EQ(cluster.node_of(13), 3);
  EXPECT_EQ(cluster.node_of(21), 4);
}

TEST(Cluster, FindsTheTypeOfANode) {
  const Cluster cluster = mixed();
  EXPECT_EQ(cluster.node_type(2).name, "small");
  EXPECT_EQ(cluster.node_type(3).name, "large");
}

TEST(ClusterDeathTest, RefusesARankBeyondTheLast) {
  EXPECT_DEATH(mixed().node_of(22), "beyond the cluster's last device");
}

}  // namespace
}  // namespace orrery::core
