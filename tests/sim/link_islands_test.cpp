#include "sim/link_islands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace orrery::sim {
namespace {

using testing::UnorderedElementsAre;

TEST(LinkIslands, JoinWhereAFlowUsesLinksOfSeveral) {
  LinkIslands islands(6);
  islands.join(0, 1);
  islands.join(2, 3);
  EXPECT_NE(islands.of(0), islands.of(2));
  islands.join(3, 1);
  for (const int link : {1, 2, 3}) EXPECT_EQ(islands.of(link), islands.of(0));
  EXPECT_THAT(islands.links(islands.of(0)), UnorderedElementsAre(0, 1, 2, 3));
  EXPECT_THAT(islands.links(islands.of(5)), UnorderedElementsAre(5));
}

// As long as flows come and go, an island is looked at anew at most once for as many departures as
// it has flows and links.
TEST(LinkIslands, AreStaleOnceManyFlowsHaveGone) {
  LinkIslands islands(4);
  islands.join(0, 1);
  int departures = 0;
  while (!islands.stale(islands.of(0))) {
    islands.enter(0);
    islands.leave(1);
    ++departures;
  }
  EXPECT_GT(departures, 2);
  EXPECT_THAT(islands.dissolve(islands.of(0)), UnorderedElementsAre(0, 1));
  EXPECT_NE(islands.of(0), islands.of(1));
  EXPECT_FALSE(islands.stale(islands.of(0)));
}

}  // namespace
}  // namespace orrery::sim
