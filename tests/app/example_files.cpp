#include "tests/app/example_files.h"

#include <fmt/format.h>

#include <cstdint>
#include <fstream>

namespace orrery::app {

namespace {

constexpr const char* kModel = R"({
  "architectures": ["GPT2LMHeadModel"],
  "n_embd": 32,
  "n_head": 4,
  "n_layer": 2,
  "n_positions": 32,
  "vocab_size": 256
}
)";

constexpr const char* kCluster = R"(source = "assumed, for tests"
name = "two cores"

[network]
kind = "none"

[[nodes]]
name = "node"
count = 1
devices = 2
cores = 2
fabric = "memory"
host_memory = "16 GiB"
network_cards = 0
device_link = { bandwidth = "10 GB/s", latency = "1 us" }

[nodes.device]
name = "core"
kind = "cpu"
memory = "8 GiB"
memory_bandwidth = "10 GB/s"
memory_efficiency = 0.8
launch = "1 us"
reserved = "0.5 GiB"
peak = { float32 = "100 GFLOP/s" }
gemm = { ceiling = 0.8, half_m = 0, half_n = 0, half_k = 0 }
)";

constexpr const char* kPod = R"(source = "assumed, for tests"
name = "two nodes of two GPUs"

[network]
kind = "fat-tree"
hop_latency = "1 us"
efficiency = 0.9
nodes_per_leaf = 1
oversubscription = 2

[[nodes]]
name = "node"
count = 2
devices = 2
cores = 8
fabric = "switch"
host_memory = "64 GiB"
network_cards = 2
device_link = { bandwidth = "100 GB/s", latency = "3 us" }
network_card = { bandwidth = "100 Gbit/s", latency = "5 us" }

[nodes.device]
name = "GPU"
kind = "gpu"
memory = "16 GiB"
memory_bandwidth = "900 GB/s"
memory_efficiency = 0.9
launch = "4 us"
reserved = "1 GiB"
price = "2.5 USD/h"
power = "300 W"

[nodes.device.peak]
float32 = "15 TFLOP/s"
bfloat16 = "120 TFLOP/s"

[nodes.device.gemm]
ceiling = 0.8
half_m = 100
half_n = 100
half_k = 50

[nodes.device.attention]
forward = 0.5
backward = 0.4
half_rows = 1000

[nodes.device.operators.normalize]
per_call = "1 us"
rate = "500 GB/s"
)";

constexpr const char* kJob = R"(sequence = 32
global_batch = 4
precision = "float32"
steps = 2
seed = 1

[optimizer]
kind = "adamw"
learning_rate = 1e-3

[data]
format = "text"
path = "text.txt"
)";

constexpr const char* kPlan = R"(model = "model.json"
cluster = "cluster.toml"
job = "job.toml"

[dense]
data = 1
tensor = 2
pipeline = 1
layers_per_stage = [2]
microbatch = 2
schedule = "1f1b"
recompute = "none"
)";

constexpr const char* kPodPlan = R"(model = "model.json"
cluster = "pod.toml"
job = "job.toml"

[dense]
data = 1
sharding = 2
sharding_stage = 1
tensor = 1
pipeline = 2
layers_per_stage = [1, 1]
microbatch = 1
schedule = "gpipe"
recompute = "full"
axis_order = ["tensor", "sharding", "pipeline", "data"]
)";

constexpr const char* kCtrModel = R"(name = "ctr"
source = "assumed, for tests"
dense_features = 13
mlp = [16, 8]
interaction = "factorization-machine"
wide = true

[[table]]
name = "hash"
rows = 2600
dim = 4
lookups_per_sample = 26
)";

constexpr const char* kCtrJob = R"(global_batch = 16
precision = "float32"
steps = 2

[optimizer]
kind = "adam"
learning_rate = 1e-3

[sparse_optimizer]
kind = "adagrad"
learning_rate = 0.05
epsilon = 1e-10
initial_accumulator = 0.1

[data]
format = "criteo-tsv"
path = "samples.tsv"
)";

constexpr const char* kCtrPlan = R"(model = "ctr-model.toml"
cluster = "cluster.toml"
job = "ctr-job.toml"

[sparse]
workers = 1
servers = 1
slices = 2
)";

std::string samples() {
  std::string text;
  for (int line = 0; line < 40; ++line) {
    text += line % 3 == 0 ? "1" : "0";
    for (int i = 0; i < 13; ++i) text += i == 5 ? "\t" : fmt::format("\t{}", line + i);
    for (int c = 0; c < 26; ++c) text += fmt::format("\t{:08x}", 7 * line + c);
    text += '\n';
  }
  return text;
}

/// llm.c's token file: 256 int32 of header (magic, version, count), then tokens of 16 bits.
std::string tokens(int count, std::uint16_t beyond) {
  std::string bytes;
  const auto add = [&](std::uint32_t value, int size) {
    for (int b = 0; b < size; ++b) bytes += static_cast<char>(value >> (8 * b) & 0xFF);
  };
  for (const std::uint32_t word : {20240520, 1, count}) add(word, 4);
  for (int word = 3; word < 256; ++word) add(0, 4);
  for (int t = 0; t < count; ++t)
    add(t % 50 == 49 ? beyond : static_cast<std::uint16_t>(t % 200), 2);
  return bytes;
}

std::string text() {
  std::string lines;
  for (int i = 0; i < 200; ++i) lines += fmt::format("some text {}\n", i);
  return lines;
}

}  // namespace

const std::vector<ExampleFile>& example_files() {
  static const std::vector<ExampleFile> kFiles = {
      {"model.json", kModel},      {"cluster.toml", kCluster},    {"job.toml", kJob},
      {"plan.toml", kPlan},        {"text.txt", text()},          {"pod.toml", kPod},
      {"pod-plan.toml", kPodPlan}, {"ctr-model.toml", kCtrModel}, {"ctr-job.toml", kCtrJob},
      {"ctr-plan.toml", kCtrPlan}, {"samples.tsv", samples()},    {"beyond.bin", tokens(600, 999)}};
  return kFiles;
}

void write_example_files(const std::filesystem::path& folder) {
  for (const ExampleFile& file : example_files()) {
    std::ofstream(folder / file.name, std::ios::binary) << file.content;
  }
}

}  // namespace orrery::app
