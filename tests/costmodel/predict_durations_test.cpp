#include "costmodel/predict_durations.h"

#include <gtest/gtest.h>

#include "costmodel/compute_cost.h"

namespace orrery::costmodel {
namespace {

using namespace core::literals;

core::NodeGroup node(const std::string& name, double tera_flops) {
  core::NodeGroup group;
  group.type.device.name = name;
  group.type.device.peak[core::DType::Float32] = core::FlopsPerSecond(tera_flops * 1e12);
  group.type.device.memory_bandwidth = 1e6_GBps;
  group.type.devices = 1;
  group.count = 1;
  return group;
}

// One role with a product of 2·100³ flops and a collective, run by a 1 TF and a 2 TF device.
TEST(PredictDurations, TakesTheSlowestDeviceOfARoleAndLeavesCommunicationAtZero) {
  core::Cluster cluster;
  cluster.groups = {node("fast", 2.0), node("slow", 1.0)};
  const core::Operator op = core::Linear{.rows = 100, .out = 100, .in = 100, .bias = false};
  core::Program program;
  core::Block block;
  block.instructions.resize(2);
  block.instructions[0].operation = core::Compute{.op = op, .work = core::work_of(op, 4)};
  block.instructions[1].operation = core::Collective{};
  program.roles.resize(1);
  program.roles[0].blocks = {block};
  program.ranks.resize(2);
  const core::Durations durations = predict_durations(program, cluster, core::Job{});
  EXPECT_DOUBLE_EQ(durations.of(core::RoleId(0), core::BlockId(0), 0).value, 2e6 / 1e12);
  EXPECT_EQ(durations.of(core::RoleId(0), core::BlockId(0), 1).value, 0.0);
}

}  // namespace
}  // namespace orrery::costmodel
