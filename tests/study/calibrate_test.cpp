// What calibration measures and writes, on its smallest probes; that the figures are right is for
// bench/predicted-measured.sh to show.

#include "study/calibrate.h"

#include <gtest/gtest.h>

#include "core/config/read.h"
#include "core/config/write.h"
#include "core/error.h"
#include "engine/execute.h"
#include "study/fabric_probe.h"
#include "study/operator_probe.h"
#include "study/simulate_plan.h"
#include "tests/core/temporary_folder.h"

namespace {

using namespace orrery;

std::vector<study::OperatorSample> samples_of(const study::OperatorProbe& probe, int ranks) {
  const core::Program program =
      study::lower_plan({probe.model, study::one_node({}, ranks, 2), probe.job, probe.plan});
  engine::ExecuteOptions options;
  options.steps = 2;
  return study::operator_samples(program, engine::execute(program, probe.job, options));
}

// Every compute instruction of the probe is a sample with a duration, once for each place in a
// block.
TEST(Calibration, SamplesEveryComputeInstructionOfAProbe) {
  const core::TemporaryFolder folder;
  const auto text = folder.write("text", std::string(20000, 'a'));
  const study::OperatorProbe probe = study::transformer_probes(1, text).front();
  const core::Program program =
      study::lower_plan({probe.model, study::one_node({}, 1, 2), probe.job, probe.plan});
  std::size_t computes = 0;
  for (const core::Block& block : program.roles.front().blocks) {
    for (const core::Instruction& instruction : block.instructions) {
      if (std::holds_alternative<core::Compute>(instruction.operation)) ++computes;
    }
  }
  const auto samples = samples_of(probe, 1);
  EXPECT_EQ(samples.size(), computes);
  for (const auto& sample : samples) EXPECT_GT(sample.duration.value, 0);
}

// A device fitted to this machine is one that files can say: written and read it is the same, and
// a plan can be simulated on it.
TEST(Calibration, FitsADeviceThatFilesCanHold) {
  const core::TemporaryFolder folder;
  const auto text = folder.write("text", std::string(20000, 'a'));
  const std::string criteo = ORRERY_SOURCE_DIR "/tests/fixtures/parity/criteo_synth.tsv";
  const auto transformers = study::transformer_probes(2, text);
  auto samples = samples_of(transformers[0], 2);
  for (const auto& probe : {transformers[1], study::click_through_probes(2, criteo).front()}) {
    for (const auto& sample : samples_of(probe, 2)) samples.push_back(sample);
  }
  core::Device device;
  device.name = "this core";
  device.kind = core::DeviceKind::Cpu;
  device.memory = core::Bytes(1e9);
  device.memory_bandwidth = core::BytesPerSecond(1e10);
  core::Cluster cluster = study::one_node(study::fit_device(device, samples).device, 2, 2);
  cluster.groups.front().type.host_memory = core::Bytes(2e9);
  cluster.groups.front().type.device_link = {core::Seconds(1e-6), core::BytesPerSecond(1e9)};
  core::write_cluster(folder.path() / "cluster.toml", cluster, "measured, for a test");
  const core::Cluster read = core::read_cluster(folder.path() / "cluster.toml");
  const core::Device& before = cluster.groups.front().type.device;
  const core::Device& after = read.groups.front().type.device;
  EXPECT_EQ(after.peak, before.peak);
  EXPECT_EQ(after.operators.size(), before.operators.size());
  for (const auto& [name, rate] : before.operators) {
    EXPECT_DOUBLE_EQ(after.operators.at(name).rate.value, rate.rate.value) << name;
  }
  const study::Inputs inputs{transformers[0].model, read, transformers[0].job,
                             transformers[0].plan};
  const core::Program program = study::lower_plan(inputs);
  EXPECT_GT(study::simulate_plan(inputs, program, {}).duration().value, 0);
}

// 5 communications for each size, all measured; the fitted link has a bandwidth, and nothing of
// it is negative.
TEST(Calibration, FitsALinkToTheFabricProbe) {
  const core::Program probe = study::fabric_probe(2, {16, 4096, 65536});
  engine::ExecuteOptions options;
  options.steps = 3;
  const auto samples = study::fabric_samples(probe, engine::execute(probe, core::Job{}, options));
  ASSERT_EQ(samples.size(), 15U);
  for (const auto& sample : samples) EXPECT_GT(sample.duration.value, 0);
  core::Device device;
  device.memory_bandwidth = core::BytesPerSecond(1e10);
  const study::FabricFit fit = study::fit_fabric(study::one_node(device, 2, 2), samples);
  EXPECT_GE(fit.link.latency.value, 0);
  EXPECT_GT(fit.link.bandwidth.value, 0);
  EXPECT_GT(fit.reduction.value_or(core::BytesPerSecond(1)).value, 0);
}

TEST(Calibration, RefusesAnOddNumberOfRanks) {
  EXPECT_THROW(study::calibrate({.ranks = {3}, .progress = {}}), core::ConfigError);
}

}  // namespace
