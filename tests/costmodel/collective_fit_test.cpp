#include "costmodel/collective_fit.h"

#include <gtest/gtest.h>

namespace orrery::costmodel {
namespace {

using namespace core::literals;

/// A node whose switch makes sums, with every cost of a library.
FabricCost truth() {
  FabricCost fabric;
  fabric.inside = 3.0_us;
  fabric.port = 300.0_GBps;
  core::Collectives& c = fabric.collectives;
  c.base = 20.0_us;
  c.ring_ends = 0.5;
  c.ll128 = core::ProtocolCost{.step = 0.5, .network_step = 0.5, .wire = 1.1};
  c.in_switch = core::InSwitchCost{60.0_us, 1.2};
  return fabric;
}

/// All-reduces of 2, 4 and 8 of a node, with and without the switch, as `fabric` has them.
std::vector<CollectiveSample> samples_of(const FabricCost& fabric) {
  std::vector<CollectiveSample> samples;
  for (const int n : {2, 4, 8}) {
    for (double bytes = 1 << 20; bytes <= 1 << 30; bytes *= 4) {
      for (const bool in_switch : {false, true}) {
        CollectiveSample s;
        s.bytes = core::Bytes(bytes);
        s.where.members_per_node = s.where.users_per_node = n;
        s.in_switch = in_switch;
        s.time = predicted(fabric, s);
        samples.push_back(s);
      }
    }
  }
  return samples;
}

// Samples without noise: the fit finds the costs that made them, from 20 to 50% off.
TEST(CollectiveFit, FindsTheCostsBehindSamples) {
  FabricCost start = truth();
  start.port *= 0.8;
  start.inside *= 1.3;
  start.collectives.base *= 1.5;
  start.collectives.ring_ends = 0.3;
  start.collectives.in_switch = core::InSwitchCost{40.0_us, 1.4};
  const auto samples = samples_of(truth());
  using P = FabricParameter;
  const FabricCost fit = fit_collectives(
      start, {P::Port, P::Inside, P::Base, P::RingEnds, P::InSwitchLatency, P::InSwitchWire},
      samples);
  EXPECT_NEAR(fit.port / truth().port, 1.0, 1e-4);
  EXPECT_NEAR(fit.inside / truth().inside, 1.0, 1e-3);
  EXPECT_NEAR(fit.collectives.base / truth().collectives.base, 1.0, 1e-3);
  EXPECT_NEAR(fit.collectives.ring_ends, 0.5, 1e-3);
  EXPECT_NEAR(fit.collectives.in_switch->latency.value, 60e-6, 1e-7);
  EXPECT_NEAR(fit.collectives.in_switch->wire, 1.2, 1e-4);
  EXPECT_LT(errors_of(fit, samples).mean, 1e-4);
}

// What is not free stays.
TEST(CollectiveFit, LeavesTheRestAlone) {
  FabricCost start = truth();
  start.collectives.base = 50.0_us;
  const FabricCost fit = fit_collectives(start, {FabricParameter::Port}, samples_of(truth()));
  EXPECT_EQ(fit.collectives.base, 50.0_us);
  EXPECT_EQ(fit.inside, 3.0_us);
}

// Times of twice and of half the prediction are off by −50% and by +100%: mean 75%, bias +25%.
TEST(CollectiveErrors, AreRelativeToTheMeasurement) {
  auto samples = samples_of(truth());
  samples.resize(2);
  samples[0].time *= 2.0;
  samples[1].time *= 0.5;
  const CollectiveErrors errors = errors_of(truth(), samples);
  EXPECT_NEAR(errors.mean, 0.75, 1e-12);
  EXPECT_NEAR(errors.bias, 0.25, 1e-12);
  EXPECT_NEAR(errors.largest, 1.0, 1e-12);
}

}  // namespace
}  // namespace orrery::costmodel
