// The program as its users meet it: exit status, one clear message, no half-written file.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "core/cluster.h"
#include "core/config/write.h"
#include "study/operator_probe.h"
#include "tests/core/temporary_folder.h"

namespace {

using namespace orrery;
namespace fs = std::filesystem;
using testing::HasSubstr;

struct Outcome {
  int status = 0;
  std::string out;
  std::string error;
};

std::string read_all(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void replace(const fs::path& path, const std::string& from, const std::string& to) {
  std::string text = read_all(path);
  const auto at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from << " in " << path;
  text.replace(at, from.size(), to);
  std::ofstream(path, std::ios::binary) << text;
}

/// A folder with a tiny model, job, cluster of two ranks, text and a plan for them.
class CommandLine : public testing::Test {
 protected:
  CommandLine() {
    folder_.write("model/config.json", R"({
  "model_type": "gpt2", "n_embd": 32, "n_head": 2, "n_layer": 2, "n_positions": 16,
  "vocab_size": 256, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5
})");
    folder_.write("job.toml", R"(sequence = 16
global_batch = 4
precision = "float32"
steps = 3
seed = 1
[optimizer]
kind = "adamw"
learning_rate = 1e-3
[data]
format = "text"
path = "text.txt"
)");
    folder_.write("text.txt", std::string(2000, 'a'));
    core::DensePlan dense;
    dense.data = 2;
    dense.layers_per_stage = {2};
    dense.microbatch = 2;
    core::write_plan(path("plan.toml"), {.name = "plan",
                                         .model = "model",
                                         .cluster = "cluster.toml",
                                         .job = "job.toml",
                                         .dense = dense,
                                         .sparse = {}});
    core::write_cluster(path("cluster.toml"), small_cluster(), "assumed, for tests");
  }

  static core::Cluster small_cluster() {
    core::Device device;
    device.name = "core";
    device.kind = core::DeviceKind::Cpu;
    device.memory = core::Bytes(1e9);
    device.memory_bandwidth = core::BytesPerSecond(1e10);
    device.peak[core::DType::Float32] = core::FlopsPerSecond(1e10);
    device.launch = core::Seconds(1e-6);
    core::Cluster cluster = study::one_node(device, 2, 2);
    cluster.groups.front().type.device_link = {core::Seconds(1e-6), core::BytesPerSecond(1e9)};
    cluster.groups.front().type.host_memory = core::Bytes(2e9);
    return cluster;
  }

  fs::path path(const std::string& name) const { return folder_.path() / name; }

  /// Runs `orrery <arguments>` in the folder, by way of a shell that runs `before` first.
  Outcome orrery(const std::string& arguments, const std::string& before = ":") const {
    const std::string command = "cd '" + folder_.path().string() + "' && " + before + " && '" +
                                ORRERY_BINARY_DIR "/orrery' " + arguments +
                                " >stdout.txt 2>stderr.txt";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_all(path("stdout.txt")),
            read_all(path("stderr.txt"))};
  }

  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }

  /// Expects this status and one line that has these words.
  void expect_failure(const Outcome& outcome, int status, const std::string& words) const {
    EXPECT_EQ(outcome.status, status) << outcome.error;
    EXPECT_THAT(outcome.error, HasSubstr(words));
    EXPECT_EQ(std::count(outcome.error.begin(), outcome.error.end(), '\n'), 1) << outcome.error;
    EXPECT_THAT(outcome.error, testing::StartsWith("orrery: "));
  }

  const std::string plan_ = "plan --model model --cluster cluster.toml --job job.toml";

 protected:
  core::TemporaryFolder folder_;
};

TEST_F(CommandLine, EveryCommandHelpsWithAnExample) {
  for (const char* command : {"plan", "simulate", "run", "view", "calibrate"}) {
    const Outcome help = orrery(std::string(command) + " --help");
    EXPECT_EQ(help.status, 0) << command;
    EXPECT_THAT(help.out, HasSubstr("Example:\n  orrery " + std::string(command)));
  }
}

TEST_F(CommandLine, UnknownCommandsAndFlagsAreBadInput) {
  expect_failure(orrery("frobnicate"), 2, "plan, simulate, run, view, calibrate");
  expect_failure(orrery("simulate plan.toml --frobnicate"), 2, "--frobnicate");
  expect_failure(orrery("run plan.toml --steps 0"), 2, "--steps");
  expect_failure(orrery("calibrate --ranks 3 -o machine"), 2, "neither 1 nor an even number");
  EXPECT_FALSE(files().contains("machine"));
}

// A straggler that computes for ten times as long costs most of the step, and leaving it out is what it
// costs; links that are there are named.
TEST_F(CommandLine, SimulatesWhatDisturbsAStep) {
  folder_.write("slow.toml", "[[straggler]]\nrank = 1\nslowdown = 10\n");
  const auto step = [&](const std::string& more) {
    const Outcome outcome = orrery("simulate plan.toml --json" + more);
    EXPECT_EQ(outcome.status, 0) << outcome.error;
    return nlohmann::json::parse(outcome.out);
  };
  const double plain = step("")["step_seconds"];
  const nlohmann::json slow = step(" --perturb slow.toml --link-gains 2");
  const double length = slow["step_seconds"];
  EXPECT_GT(length, 2 * plain);
  EXPECT_EQ(slow["disturbances"].at(0)["what"], "rank 1 computes 10 times as long");
  EXPECT_NEAR(slow["disturbances"].at(0)["costs_seconds"], length - plain, 1e-9 * length);
  EXPECT_EQ(slow["waited_for"].at(0)["rank"], 1);
  EXPECT_FALSE(slow["link_gains"].empty());
  EXPECT_THAT(orrery("simulate plan.toml --perturb slow.toml").out,
              HasSubstr("rank 1 computes 10 times as long"));
  folder_.write("slow.toml", "[[slow_link]]\nlink = \"cable 3\"\nbandwidth = 0.5\n");
  expect_failure(orrery("simulate plan.toml --perturb slow.toml"), 2,
                 "slow_link.link: \"cable 3\" is no link");
  expect_failure(orrery("simulate plan.toml -o slow.toml --perturb slow.toml"), 2, "slow.toml");
}

TEST_F(CommandLine, APlanGoesAllTheWay) {
  EXPECT_EQ(orrery(plan_ + " -o best.toml").status, 0);
  EXPECT_EQ(orrery("simulate best.toml -o predicted.h5").status, 0);
  EXPECT_EQ(orrery("run best.toml -o measured.json.gz --weights-out w.safetensors").status, 0);
  const Outcome view =
      orrery("view predicted.h5 measured.json.gz --screenshot t.png --size 640x360");
  EXPECT_EQ(view.status, 0) << view.error;
  for (const char* file :
       {"best.toml", "predicted.h5", "measured.json.gz", "w.safetensors", "t.png"}) {
    EXPECT_TRUE(files().contains(file)) << file;
  }
  EXPECT_EQ(read_all(path("t.png")).substr(1, 3), "PNG");
}

// The part of the cluster is written beside the plan, and both can be read.
TEST_F(CommandLine, APlanForAPartOfTheClusterGoesAllTheWay) {
  const Outcome planned = orrery(plan_ + " --max-gpus 1 -o part.toml");
  ASSERT_EQ(planned.status, 0) << planned.error;
  EXPECT_THAT(planned.out, HasSubstr("part-cluster.toml"));
  const Outcome simulated = orrery("simulate part.toml");
  EXPECT_EQ(simulated.status, 0) << simulated.error;
  const std::string gpus = std::string("plan --model ") + ORRERY_SOURCE_DIR +
                           "/configs/models/llama-3-70b --cluster " + ORRERY_SOURCE_DIR +
                           "/configs/clusters/dgx-h100-64.toml --job " + ORRERY_SOURCE_DIR +
                           "/configs/jobs/llama-3-70b.toml --tensor 8 --simulate 1";
  const Outcome pod = orrery(gpus + " --max-gpus 256 -o pod.toml");
  ASSERT_EQ(pod.status, 0) << pod.error;
  const Outcome simulated_pod = orrery("simulate pod.toml");
  EXPECT_EQ(simulated_pod.status, 0) << simulated_pod.error;
}

// Whatever is read stays as it is.
TEST_F(CommandLine, OutputsNeverTakeThePlaceOfInputs) {
  const std::string words = "is read, and would be lost";
  expect_failure(orrery(plan_ + " -o cluster.toml"), 2, words);
  expect_failure(orrery(plan_ + " -o ../" + folder_.path().filename().string() + "/job.toml"), 2,
                 words);
  expect_failure(orrery(plan_ + " --compare plan.toml -o plan.toml"), 2, words);
  fs::copy(path("cluster.toml"), path("best-cluster.toml"));
  expect_failure(
      orrery("plan --model model --cluster best-cluster.toml --job job.toml --max-gpus 1 "
             "-o best.toml"),
      2, words);
  expect_failure(orrery("run plan.toml --weights-out plan.toml"), 2, words);
  expect_failure(orrery("run plan.toml --weights-out text.txt"), 2, words);
  ASSERT_EQ(orrery("simulate plan.toml -o t.h5").status, 0);
  expect_failure(orrery("view t.h5 --screenshot t.h5"), 2, words);
  expect_failure(orrery("view t.h5 --screenshot t.jpg"), 2, "ends in .png");
  EXPECT_EQ(orrery("simulate plan.toml").status, 0);
}

// A plan may be simulated that no device could hold; it is said.
TEST_F(CommandLine, SimulatingSaysWhatDoesNotFit) {
  EXPECT_THAT(orrery("simulate plan.toml").out,
              HasSubstr("memory per device   708 KiB of 954 MiB"));
  core::Cluster small = small_cluster();
  small.groups.front().type.device.memory = core::Bytes(1e5);
  core::write_cluster(path("cluster.toml"), small, "assumed, for tests");
  EXPECT_THAT(orrery("simulate plan.toml").out, HasSubstr("does NOT fit: it has 97.7 KiB"));
}

TEST_F(CommandLine, SaysItsVersion) {
  const Outcome version = orrery("--version");
  EXPECT_EQ(version.status, 0);
  EXPECT_THAT(version.out, testing::MatchesRegex("orrery [0-9.]+\n"));
}

// Beside the best plan stands the one that somebody has in mind, with its place among all.
TEST_F(CommandLine, APlanIsComparedWithTheBest) {
  const Outcome table = orrery(plan_ + " --compare plan.toml");
  ASSERT_EQ(table.status, 0) << table.error;
  for (const char* part : {"best found", "sent within a node", "plan, dp2 tp1", "plans of the"}) {
    EXPECT_THAT(table.out, HasSubstr(part));
  }
  const Outcome json = orrery(plan_ + " --compare plan.toml plan.toml --json");
  ASSERT_EQ(json.status, 0) << json.error;
  const auto plans = nlohmann::json::parse(json.out).at("side_by_side");
  ASSERT_EQ(plans.size(), 3U);
  EXPECT_EQ(plans[1].at("data_ways"), 2);
  EXPECT_GT(plans[1].at("within_node_bytes").get<double>(), 0);
  EXPECT_EQ(plans[1].at("between_nodes_bytes"), 0);
  EXPECT_EQ(plans[1], plans[2]);
}

TEST_F(CommandLine, APlanForOtherDevicesIsNotCompared) {
  replace(path("plan.toml"), "data = 2", "data = 4");
  expect_failure(orrery(plan_ + " --compare plan.toml"), 2, "plan.toml: dense: data 4");
  expect_failure(orrery(plan_ + " --compare none.toml"), 2, "none.toml: cannot read");
  expect_failure(orrery(plan_ + " --pareto --compare plan.toml"), 2, "--compare is for one");
}

TEST_F(CommandLine, OptionsThatWouldBePassedOverAreBadInput) {
  expect_failure(orrery(plan_ + " --pareto -o x.toml"), 2, "--pareto shows plans of several parts");
  const std::string click = std::string("plan --model ") + ORRERY_SOURCE_DIR +
                            "/configs/models/deepfm.toml --cluster " + ORRERY_SOURCE_DIR +
                            "/configs/clusters/cpu-4node.toml --job " + ORRERY_SOURCE_DIR +
                            "/configs/jobs/deepfm.toml";
  expect_failure(orrery(click + " --max-memory \"1 MB\""), 2, "is a click-through model");
  expect_failure(orrery(click + " --tensor 2"), 2, "is a click-through model");
}

// Everything is written all the same.
TEST_F(CommandLine, ARunThatDivergesFails) {
  replace(path("job.toml"), "learning_rate = 1e-3", "learning_rate = 1e6");
  replace(path("job.toml"), "adamw", "sgd");
  std::ofstream text(path("text.txt"));
  for (int i = 0; i < 2000; ++i) text << static_cast<char>('a' + i * i % 23);
  text.close();
  const Outcome ran = orrery("run plan.toml -o diverged.h5 --steps 8");
  expect_failure(ran, 1, "the loss is not finite from step");
  EXPECT_TRUE(files().contains("diverged.h5"));
}

TEST_F(CommandLine, JsonIsForScripts) {
  const auto plans = nlohmann::json::parse(orrery(plan_ + " --json --top 2").out);
  EXPECT_EQ(plans.at("plans").size(), 2U);
  EXPECT_GT(plans.at("plans")[0].at("estimated_step_seconds").get<double>(), 0);
  const auto simulated = nlohmann::json::parse(orrery("simulate plan.toml --json").out);
  EXPECT_GT(simulated.at("step_seconds").get<double>(), 0);
  const auto run = nlohmann::json::parse(orrery("run plan.toml --json").out);
  EXPECT_EQ(run.at("losses").size(), 3U);
  EXPECT_GT(run.at("measured_step_seconds").get<double>(), 0);
}

TEST_F(CommandLine, TablesFitAHundredColumns) {
  const std::string configs = ORRERY_SOURCE_DIR "/configs/";
  const std::string click_through = "plan --model " + configs + "models/deepfm.toml --cluster " +
                                    configs + "clusters/cpu-4node.toml --job " + configs +
                                    "jobs/deepfm.toml --explain";
  for (const std::string& command :
       {plan_ + " --explain", click_through, std::string("simulate plan.toml"),
        std::string("run plan.toml")}) {
    std::istringstream lines(orrery(command).out);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(
          std::count_if(line.begin(), line.end(),
                        [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }),
          100)
          << line;
    }
  }
}

TEST_F(CommandLine, FaultsOfFilesNameFileLineAndColumn) {
  replace(path("job.toml"), "global_batch = 4", "global_batch = 0");
  expect_failure(orrery(plan_), 2, "job.toml:2:16: global_batch: is 0");
  replace(path("job.toml"), "global_batch = 0", "globl_batch = 4");
  expect_failure(orrery(plan_), 2,
                 "job.toml:2:15: global_batch: is missing; is \"globl_batch\" a typing error?");
}

TEST_F(CommandLine, ACutOffModelIsBadInput) {
  const std::string whole = read_all(path("model/config.json"));
  std::ofstream(path("model/config.json")) << whole.substr(0, whole.size() / 2);
  expect_failure(orrery(plan_ + " -o best.toml"), 2, "config.json:");
  EXPECT_FALSE(files().contains("best.toml"));
}

TEST_F(CommandLine, AQuantityWithoutAUnitIsBadInput) {
  const std::string text = read_all(path("cluster.toml"));
  const auto at = text.find("host_memory = \"");
  ASSERT_NE(at, std::string::npos);
  const auto end = text.find('\n', at);
  std::ofstream(path("cluster.toml"))
      << text.substr(0, at) << "host_memory = \"450\"" << text.substr(end);
  expect_failure(orrery("simulate plan.toml"), 2, "\"450\" needs a unit");
}

// The plan has 2 ranks; this cluster has 4.
TEST_F(CommandLine, APlanForAnotherClusterIsBadInput) {
  core::Cluster other = small_cluster();
  other.groups.front().type.devices = 4;
  core::write_cluster(path("cluster.toml"), other, "assumed, for tests");
  for (const char* command : {"simulate plan.toml -o t.h5", "run plan.toml -o t.h5"}) {
    expect_failure(orrery(command), 2, "= 2 devices, but the cluster has 4");
  }
  EXPECT_FALSE(files().contains("t.h5"));
}

TEST_F(CommandLine, MissingAndEmptyTextsFail) {
  std::ofstream(path("text.txt")).close();
  expect_failure(orrery("run plan.toml -o t.h5"), 2, "holds 0 tokens");
  fs::remove(path("text.txt"));
  expect_failure(orrery("run plan.toml -o t.h5"), 2, "text.txt: cannot open");
  EXPECT_FALSE(files().contains("t.h5"));
}

TEST_F(CommandLine, OutputsThatCannotBeWrittenAreToldBeforeTheRun) {
  expect_failure(orrery("run plan.toml -o nowhere/t.h5"), 2, "there is no folder nowhere");
  expect_failure(orrery(plan_ + " -o model"), 2, "is a folder");
}

// A file size limit of 1 KiB stands for a full disk.
TEST_F(CommandLine, AFullDiskLeavesNoHalfWrittenTrace) {
  const std::set<std::string> before = [&] {
    orrery("simulate plan.toml");
    return files();
  }();
  for (const char* trace : {"t.h5", "t.json"}) {
    expect_failure(
        orrery("simulate plan.toml -o " + std::string(trace), "trap '' XFSZ && ulimit -f 1"), 1,
        "cannot write");
    EXPECT_EQ(files(), before);
  }
}

TEST_F(CommandLine, DamagedAndForeignTracesAreBadInput) {
  ASSERT_EQ(orrery("simulate plan.toml -o t.h5").status, 0);
  const std::string whole = read_all(path("t.h5"));
  std::ofstream(path("cut.h5"), std::ios::binary) << whole.substr(0, whole.size() / 2);
  expect_failure(orrery("view cut.h5 --screenshot t.png"), 2, "cut.h5");
  expect_failure(orrery("view plan.toml --screenshot t.png"), 2, "plan.toml");
  expect_failure(orrery("view t.h5 --screenshot t.png --step 9"), 2, "has step 0");
  expect_failure(orrery("view t.h5 --screenshot t.png --size 12"), 2, "WIDTHxHEIGHT");
  EXPECT_FALSE(files().contains("t.png"));
}

TEST_F(CommandLine, NothingFitsIsAFailureNotBadInput) {
  core::Cluster tiny = small_cluster();
  tiny.groups.front().type.device.memory = core::Bytes(1000);
  core::write_cluster(path("cluster.toml"), tiny, "assumed, for tests");
  expect_failure(orrery(plan_ + " -o best.toml"), 1, "no plan fits");
  EXPECT_FALSE(files().contains("best.toml"));
}

}  // namespace
