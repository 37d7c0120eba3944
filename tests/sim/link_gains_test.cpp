#include "sim/link_gains.h"

#include <gtest/gtest.h>

#include "tests/sim/small_programs.h"

namespace orrery::sim {
namespace {

using namespace core::literals;
using core::CollectiveKind;

// A ring of four ranks on four nodes: 2·(3/4)·S/β over the cards, α beside. Cards twice as fast save
// half of what their links take; no other link stops anything.
TEST(LinkGains, CardsTwiceAsFastSaveHalfOfTheirTime) {
  const core::Cluster cluster = star(4, 0.5_us, 50.0_GBps);
  ProgramBuilder b(4);
  const core::GroupId group = b.group({0, 1, 2, 3});
  for (int r = 0; r < 4; ++r) b.collective(r, CollectiveKind::AllReduce, group, 1.0_GB);
  SimulateOptions options;
  options.algorithm = core::CollectiveAlgorithm::Ring;
  const auto gains = link_gains(b.program, b.durations, cluster, options, 8);
  ASSERT_EQ(gains.size(), 2U);  // The kind, and its only class.
  const double moving = 2 * 0.75 * 1e9 / 50e9;
  EXPECT_EQ(gains[0].name, "all cards");
  EXPECT_EQ(gains[1].name, "node 0 card 0 out");
  for (const LinkGain& gain : gains) {
    EXPECT_EQ(gain.links, 8);
    EXPECT_NEAR(gain.full.value, moving, 1e-9 * moving);
    EXPECT_NEAR(gain.saves.value, moving / 2, 1e-9 * moving);
  }
}

/// 0 sends 1 GB to 1, then 1 sends 3 GB to 2.
ProgramBuilder two_messages() {
  ProgramBuilder b(3);
  b.send(0, 1, 1.0_GB);
  const int received = b.receive(1, 0, 1.0_GB);
  b.send(1, 2, 3.0_GB, {received});
  b.receive(2, 1, 3.0_GB);
  return b;
}

// Each message goes over the cards at both ends. Both of the ways'
// cards twice as fast save (1 + 3) GB / 50 GB/s / 2 in all; one card alone saves nothing,
// for the other one is as slow.
TEST(LinkGains, ACardBesideASlowOneSavesNothing) {
  const core::Cluster cluster = star(3, 0.5_us, 50.0_GBps);
  const ProgramBuilder b = two_messages();
  const auto gains = link_gains(b.program, b.durations, cluster, {}, 8);
  ASSERT_EQ(gains.size(), 1U);
  EXPECT_EQ(gains[0].name, "all cards");
  EXPECT_NEAR(gains[0].saves.value, 4e9 / 50e9 / 2, 1e-9);
}

// With the first sender's card at a tenth, that one alone saves half of the first message.
TEST(LinkGains, NameTheSlowCard) {
  const core::Cluster cluster = star(3, 0.5_us, 50.0_GBps);
  const ProgramBuilder b = two_messages();
  SimulateOptions options;
  options.perturbations.slow_links = {
      {*core::Topology(cluster).find_link("node 0 card 0 out"), 0.1, {}}};
  const auto gains = link_gains(b.program, b.durations, cluster, options, 8);
  ASSERT_EQ(gains.size(), 2U);
  EXPECT_EQ(gains[1].name, "node 0 card 0 out");
  EXPECT_NEAR(gains[1].saves.value, 1e9 / 5e9 / 2, 1e-9);
}

}  // namespace
}  // namespace orrery::sim
