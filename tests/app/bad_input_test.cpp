// Whatever is wrong with what a user gives, each command ends with exit status 2 (bad input) or 1
// (it ran and failed), says why in one line and leaves no file behind. A sound set of files
// (example_files.h) is spoilt in one place per case.

#include "tests/app/bad_input.h"

#include <sstream>

namespace orrery::app {
namespace {

TEST_F(BadInput, TheExamplesAreSound) {
  for (const Words& arguments :
       {kPlan, kSimulate, kRun, kRunCtr, Words{"simulate", "pod-plan.toml"}}) {
    const Ended ended = orrery(arguments);
    EXPECT_EQ(ended.status, 0) << arguments[0] << ": " << how(ended) << ": " << ended.error;
  }
}

TEST_F(BadInput, CommandLines) {
  std::vector<Case> cases = {
      {{}, {}, kBadInput, "found nothing where a command is expected: plan, simulate"},
      {{"plna"}, {}, kBadInput, "found \"plna\" where a command is expected"},
      {kPlan + Words{"--top", "0"}, {}, kBadInput, "--top: .*0 not in range 1 to 1000"},
      {kPlan + Words{"--top", "1001"}, {}, kBadInput, "--top"},
      {kPlan + Words{"--simulate", "-1"}, {}, kBadInput, "--simulate"},
      {kPlan + Words{"--pick", "1000"}, {}, kBadInput, "--pick 1000: only"},
      {{"view", "a", "b", "c"}, {}, kBadInput, "traces"},
      {{"view", "a", "--step", "x"}, {}, kBadInput, "--step = x"},
      {{"view", "a", "--step", "99999999999"}, {}, kBadInput, "--step = 99999999999"},
      {kRun + Words{"--threads", "0"}, {}, kBadInput, "--threads"},
      {kRun + Words{"--record", "0"}, {}, kBadInput, "--record"},
      {{"calibrate", "-o", "new", "--ranks", "0"}, {}, kBadInput, "--ranks: 0 is neither"},
      {{"calibrate", "-o", "new", "--ranks", "1,x"}, {}, kBadInput, "--ranks: x is neither"},
      {{"calibrate", "-o", "new", "--ranks", "100000"},
       {},
       kBadInput,
       "--ranks: 100000 is neither"}};
  for (const char* command : {"plan", "simulate", "run", "view", "calibrate"}) {
    cases.push_back({{command}, {}, kBadInput, std::string(command) + ": .* is required"});
    cases.push_back({{command, "--nothing"}, {}, kBadInput, "\"--nothing\" is unknown"});
  }
  for (const char* steps : {"0", "-1", "99999999999999", "1e3", "nan", "many"}) {
    cases.push_back({kSimulate + Words{"--steps", steps}, {}, kBadInput, "simulate: --steps"});
    cases.push_back({kRun + Words{"--steps", steps}, {}, kBadInput, "run: --steps"});
  }
  expect_failures(cases);
}

TEST_F(BadInput, FilesThatCannotBeRead) {
  std::vector<Case> cases;
  for (const std::size_t file : {2U, 4U, 6U}) {
    for (const char* path : {"missing", "/", "/dev/null", "/dev/zero"}) {
      Words words = kPlan;
      words[file] = path;
      cases.push_back(
          {words, {}, kBadInput, std::string(path == std::string("/") ? "" : path) + ".*:"});
    }
  }
  for (const char* command : {"simulate", "run"}) {
    cases.push_back({{command, "missing"}, {}, kBadInput, "missing: cannot read: No such file"});
    cases.push_back({{command, "."}, {}, kBadInput, "\\.: cannot read: Is a directory"});
    cases.push_back({{command, std::string(5000, 'x')}, {}, kBadInput, "File name too long"});
    for (const auto& [key, file] :
         {std::pair("model", "model.json"), {"cluster", "cluster.toml"}, {"job", "job.toml"}}) {
      cases.push_back({{command, "plan.toml"},
                       {{"plan.toml", file, "missing"}},
                       kBadInput,
                       "missing: cannot read: No such file"});
    }
  }
  for (const char* path : {"missing", ".", "/dev/zero"}) {
    cases.push_back({{"view", path, "--screenshot", "new.png"}, {}, kBadInput, path});
    cases.push_back({kRun, {{"job.toml", "text.txt", path}}, kBadInput, path});
    cases.push_back({kRunCtr, {{"ctr-job.toml", "samples.tsv", path}}, kBadInput, path});
  }
  expect_failures(cases);
}

TEST_F(BadInput, DegreesThatDoNotDivideTheDevices) {
  const auto plan = [](const Words& more) {
    return Words{"plan",
                 "--model",
                 ORRERY_SOURCE_DIR "/configs/models/mixtral-8x7b",
                 "--cluster",
                 ORRERY_SOURCE_DIR "/configs/clusters/dgx-h100-64.toml",
                 "--job",
                 ORRERY_SOURCE_DIR "/configs/jobs/mixtral-8x7b.toml"} +
           more;
  };
  expect_failures(
      {{plan({"--expert", "3"}), {}, kBadInput, "--expert 3 does not divide the 512 devices"},
       {plan({"--tensor", "16", "--pipeline", "64"}),
        {},
        kBadInput,
        "= 1024 ways do not divide the 512 devices"},
       {plan({"--max-gpus", "7", "--expert", "8"}),
        {},
        kBadInput,
        "--expert 8 needs 8 devices; --max-gpus allows 7"},
       {plan({"--expert-capacity", "nan"}), {}, kBadInput, "nan is not a finite number"}});
}

TEST_F(BadInput, Models) {
  std::vector<Case> cases = {
      {kPlan, {{"model.json", "", ""}}, kBadInput, "model.json:1:1: .*unexpected end"},
      {kPlan, {{"model.json", "", "{\"architectures\": [\"GPT2"}}, kBadInput, "model.json:1:2.: "},
      {kPlan, {{"model.json", "", "[]"}}, kBadInput, "a JSON object is expected, found an array"},
      {kPlan, {{"model.json", "", std::string(100000, '[')}}, kBadInput, "nested too deep"},
      {kPlan, {{"model.json", "GPT2", "\xff\xfe"}}, kBadInput, "model.json:2:.*UTF-8"},
      {kPlan,
       {{"model.json", "GPT2LMHeadModel", "Foo"}},
       kBadInput,
       "\"Foo\" is unknown; known are"},
      {kPlan,
       {{"model.json", "\"n_layer\": 2", "\"n_layer\": 2, \"n_layer\": 3"}},
       kBadInput,
       "model.json:5:17: n_layer: is given twice"},
      {kPlan,
       {{"model.json", "\"n_layer\": 2", "\"n_layer\": 1e400"}},
       kBadInput,
       "model.json:5:.*: number overflow parsing '1e400'"},
      {kPlan,
       {{"model.json", "\"n_head\": 4", "\"n_head\": 3"}},
       kBadInput,
       "model.json:4:3: n_head: is 3, which does not divide n_embd = 32"},
      {kRun, {{"model.json", "256", "10"}}, kBadInput, "text.txt: .*vocabulary of 256.*has 10"},
      {kPlan,
       {{"model.json", "\"n_embd\": 32", "\"n_embd\": 9999996"}},
       kFailed,
       "no plan fits: "}};
  for (const char* value : {"0", "-1", "2.5", "1e300", "99999999999999999999", "\"2\"", "null",
                            "[2]", "10001", "true"}) {
    cases.push_back({kPlan,
                     {{"model.json", "\"n_layer\": 2", std::string("\"n_layer\": ") + value}},
                     kBadInput,
                     "model.json:[15]:[13]: n_layer: "});
  }
  for (const char* model : {"bert-large"}) {
    const std::string path = std::string(ORRERY_SOURCE_DIR "/configs/models/") + model;
    Words words = kPlan;
    words[2] = path;
    cases.push_back({words, {}, kBadInput, "which lowering does not cover yet"});
    cases.push_back(
        {kSimulate, {{"plan.toml", "model.json", path}}, kBadInput, "does not cover yet"});
    cases.push_back({kRun, {{"plan.toml", "model.json", path}}, kBadInput, "does not cover yet"});
  }
  expect_failures(cases);
}

TEST_F(BadInput, Jobs) {
  std::vector<Case> cases = {
      {kPlan, {{"job.toml", "", ""}}, kBadInput, "job.toml:1:1: global_batch: is missing"},
      {kPlan,
       {{"job.toml", "seed", "sede"}},
       kBadInput,
       "sede: unknown key; did you mean \"seed\""},
      {kPlan, {{"job.toml", "seed = 1", "seed = 1\nseed = 2"}}, kBadInput, "job.toml:6:.*redefine"},
      {kPlan, {{"job.toml", "seed", std::string("s\0d", 3)}}, kBadInput, "job.toml:5:"},
      {kPlan, {{"job.toml", "\"adamw\"", "\"\xff\""}}, kBadInput, "job.toml:8:.*utf-8"},
      {kPlan,
       {{"job.toml", "", "a = " + std::string(100000, '[')}},
       kBadInput,
       "job.toml:1:.*depth"},
      {kPlan, {{"job.toml", "\"adamw\"", "tr\nue"}}, kBadInput, "job.toml:8:.*boolean"},
      {kPlan, {{"job.toml", "\"adamw\"", "tr\x1b[2Jue"}}, kBadInput, "job.toml:8:.*boolean"},
      {kPlan, {{"job.toml", "sequence = 32", "sequence = 64"}}, kBadInput, "32 learned positions"},
      {kPlan, {{"job.toml", "float32", "bfloat16"}}, kBadInput, "no peak for bfloat16"},
      {kSimulate,
       {{"job.toml", "global_batch = 4", "global_batch = 1000000000"}},
       kBadInput,
       "plan.toml: dense.microbatch = 2: 500000000 microbatches .*more than"},
      {kRun, {{"text.txt", "", ""}}, kBadInput, "text.txt: holds 0 tokens"},
      {kRun, {{"text.txt", "", std::string(32, 'x')}}, kBadInput, "32 tokens.*at least 33"},
      {kRun,
       {{"job.toml", "[data]\nformat = \"text\"\npath = \"text.txt\"", ""}},
       kBadInput,
       "job.toml: data: is missing"},
      {kRun,
       {{"job.toml", "\"text\"", "\"csv\""}},
       kBadInput,
       "job.toml:12:10: data.format: \"csv\""},
      {kRun,
       {{"job.toml", "\"text\"", "\"llmc-bin\""}},
       kBadInput,
       "text.txt: not an llm.c token file"},
      {kRun,
       {{"job.toml", "\"text\"", "\"safetensors\""}},
       kBadInput,
       "text.txt: not a safetensors"},
      {kRun, {{"job.toml", "\"text\"", "\"criteo-tsv\""}}, kBadInput, "text.txt: "},
      {kRun,
       {{"job.toml", "\"text\"\npath = \"text.txt\"", "\"llmc-bin\"\npath = \"beyond.bin\""}},
       kBadInput,
       "beyond.bin: token 49 is 999, the model's vocabulary has 256"},
      {kRun,
       {{"job.toml", "\"text\"\npath = \"text.txt\"", "\"llmc-bin\"\npath = \"beyond.bin\""},
        {"beyond.bin", "", "0123"}},
       kBadInput,
       "beyond.bin: not an llm.c token file: 4 bytes"},
      {kRun, {{"job.toml", "seed = 1", "initial_weights = \"missing\""}}, kBadInput, "missing: "},
      {kRun,
       {{"job.toml", "seed = 1", "initial_weights = \"text.txt\""}},
       kBadInput,
       "text.txt: not a safetensors file"},
      {kRun,
       {{"job.toml", "float32", "bfloat16"}, {"cluster.toml", "float32", "bfloat16"}},
       kBadInput,
       "job.toml: precision: \"bfloat16\" can be planned .*\"float32\" only"}};
  for (const char* value :
       {"0", "-1", "4.0", "1e9", "nan", "inf", "\"4\"", "1000000001", "9223372036854775808"}) {
    for (const char* key : {"global_batch = 4", "sequence = 32", "steps = 2"}) {
      const std::string name = std::string(key).substr(0, std::string(key).find(' '));
      cases.push_back({kPlan,
                       {{"job.toml", key, name + " = " + value}},
                       kBadInput,
                       "job.toml:[124]:[0-9]+: .*(" + name + "|decimal integer)"});
    }
  }
  for (const char* value : {"-1", "nan", "inf", "1e7", "\"fast\""}) {
    cases.push_back(
        {kPlan, {{"job.toml", "1e-3", value}}, kBadInput, "job.toml:9:17: optimizer.learn"});
  }
  for (const char* folder : {"gpt2", "llama"}) {  // Weights of other models.
    const std::string path = std::string(ORRERY_SOURCE_DIR "/tests/fixtures/parity/hf/") + folder;
    cases.push_back(
        {kRun,
         {{"job.toml", "seed = 1", "initial_weights = \"" + path + "/model.safetensors\""}},
         kBadInput,
         "safetensors: .*\"transformer.wte.weight\""});
  }
  // Dotted keys nest without brackets.
  cases.push_back({kPlan, {{"job.toml", "", std::string(200000, 'a')}}, kBadInput, "job.toml:1:"});
  std::string dotted;
  for (int part = 0; part < 100000; ++part) dotted += "a.";
  cases.push_back(
      {kPlan, {{"job.toml", "", dotted + "a = 1"}}, kBadInput, "a key of more than 16 parts"});
  cases.push_back(
      {kPlan, {{"job.toml", "", "[" + dotted + "a]"}}, kBadInput, "more than 16 parts"});
  expect_failures(cases);
}

TEST_F(BadInput, Clusters) {
  std::vector<Case> cases = {
      {kPlan,
       {{"cluster.toml", "count = 1", "count = 2"}},
       kBadInput,
       "cluster.toml:4:1: network: "},
      {kPlan, {{"cluster.toml", "source", "#source"}}, kBadInput, "cluster.toml:.*needs a source"},
      {kSimulate,
       {{"cluster.toml", "devices = 2", "devices = 4"}},
       kBadInput,
       "plan.toml: .* = 2 devices, but the cluster has 4"},
      {kPlan,
       {{"cluster.toml", "devices = 2", "devices = 4096"}},
       kFailed,
       "no plan fits: even dp4096"}};
  for (const char* value : {"0", "-1", "4097", "1e300", "nan", "\"2\""}) {
    cases.push_back({kPlan,
                     {{"cluster.toml", "devices = 2", std::string("devices = ") + value}},
                     kBadInput,
                     "cluster.toml:10:11: nodes.devices: "});
  }
  for (const char* value :
       {"\"-1 B\"", "5", "\"5\"", "\"5 lightyears\"", "\"nan GB\"", "\"inf GB\"", "inf",
        "\"1e300 GB\"", "\"1e-300 GB\"", "nan", "true", "\"\"", "0", "\"0 B\""}) {
    for (const auto& [key, good] :
         {std::pair("host_memory", "\"16 GiB\""), {"memory", "\"8 GiB\""}}) {
      cases.push_back(
          {kPlan,
           {{"cluster.toml", std::string(key) + " = " + good, std::string(key) + " = " + value}},
           kBadInput,
           std::string("cluster.toml:[0-9]+:[0-9]+: nodes[.a-z]*") + key + ": "});
    }
  }
  for (const char* value : {"0", "-1", "1.5", "nan", "inf", "\"x\""}) {
    cases.push_back({kPlan,
                     {{"cluster.toml", "ceiling = 0.8", std::string("ceiling = ") + value}},
                     kBadInput,
                     "cluster.toml:.*nodes.device.gemm.ceiling: "});
  }
  expect_failures(cases);
}

TEST_F(BadInput, Plans) {
  std::vector<Case> cases = {
      {kSimulate, {{"plan.toml", "", ""}}, kBadInput, "plan.toml:1:1: model: is missing"},
      {kSimulate,
       {{"plan.toml", "[dense]", "[sparse]\nworkers = 1\nservers = 1\n[dense]"}},
       kBadInput,
       "plan.toml: a plan with both"},
      {kSimulate, {{"plan.toml", "[2]", "[1, 1]"}}, kBadInput, "layers_per_stage: has 2 entries"},
      {kSimulate, {{"plan.toml", "[2]", "[3]"}}, kBadInput, "sums to 3, the model has 2 layers"},
      {kSimulate,
       {{"plan.toml", "[2]", "[0]"}},
       kBadInput,
       "plan.toml:9:21: dense.layers_per_stage"},
      {kSimulate,
       {{"plan.toml", "1f1b", "2f2b"}},
       kBadInput,
       "plan.toml:11:12: dense.schedule: \"2f2b\""},
      {kSimulate, {{"plan.toml", "model.json", "ctr-model.toml"}}, kBadInput, "use \\[sparse\\]"}};
  for (const char* key : {"data = 1", "tensor = 2", "pipeline = 1", "microbatch = 2"}) {
    const std::string name = std::string(key).substr(0, std::string(key).find(' '));
    for (const char* value :
         {"0", "-1", "3", "10000000", "10000001", "1e300", "nan", "\"2\"", "[1]"}) {
      cases.push_back({kSimulate,
                       {{"plan.toml", key, name + " = " + value}},
                       kBadInput,
                       "plan.toml(:[0-9]+:[0-9]+)?: dense.*" + name});
    }
  }
  for (const char* key :
       {"context = 2", "expert = 2", "sharding = 2", "sharding_stage = 3", "virtual_stages = 2",
        "unknown = 1", "axis_order = []", "axis_order = [\"tensor\", \"tensor\"]"}) {
    cases.push_back({kSimulate,
                     {{"plan.toml", "[dense]", std::string("[dense]\n") + key}},
                     kBadInput,
                     "plan.toml(:[0-9]+:[0-9]+)?: dense"});
  }
  expect_failures(cases);
}

TEST_F(BadInput, ClickThrough) {
  std::vector<Case> cases = {
      {kRunCtr, {{"samples.tsv", "", ""}}, kBadInput, "samples.tsv: has no sample"},
      {kRunCtr, {{"samples.tsv", "\n0\t1", "\n0\tx"}}, kBadInput, "samples.tsv:2: I1: \"x\""},
      {kRunCtr, {{"samples.tsv", "\n0\t1", "\n7\t1"}}, kBadInput, "samples.tsv:2: label \"7\""},
      {kRunCtr, {{"samples.tsv", "\n0\t1\t", "\n0\t"}}, kBadInput, "samples.tsv:2: 39 columns"},
      {kRunCtr,
       {{"ctr-model.toml", "dense_features = 13", "dense_features = 12"}},
       kBadInput,
       "samples.tsv: the Criteo layout has 13"},
      {kRunCtr,
       {{"ctr-job.toml", "[sparse_optimizer]", "[sparse_optimiser]"}},
       kBadInput,
       "ctr-job.toml:.*did you mean \"sparse_optimizer\""},
      {kRunCtr,
       {{"ctr-job.toml", "adagrad", "adam"}},
       kBadInput,
       "sparse_optimizer is not covered"},
      {kRunCtr, {{"ctr-model.toml", "rows = 2600", "rows = 5000000000"}}, kBadInput, "32 bits"},
      {kRunCtr, {{"ctr-model.toml", "[16, 8]", "[0]"}}, kBadInput, "ctr-model.toml:4:"},
      {kRunCtr,
       {{"ctr-plan.toml", "servers = 1", "servers = 2"}},
       kBadInput,
       "but the cluster has 2"},
      {kRunCtr,
       {{"ctr-plan.toml", "slices = 2", "slices = 3"}},
       kBadInput,
       "no multiple of workers"},
      {{"plan", "--model", "ctr-model.toml", "--cluster", "cluster.toml", "--job", "ctr-job.toml"},
       {{"ctr-job.toml", "float32", "float8"}},
       kBadInput,
       "no peak for float8"},
      {{"plan", "--model", "ctr-model.toml", "--cluster", "cluster.toml", "--job", "job.toml"},
       {},
       kBadInput,
       "add \\[sparse_optimizer\\]"}};
  expect_failures(cases);
}

// More than any machine has: 2^31 elements per layer, traces of 10^8 spans and more.
// What makes no sense in a table of measured steps ends the command; what is only not followed is told,
// and the rest is predicted.
TEST_F(BadInput, MeasuredSteps) {
  const std::string columns =
      "id,source,architecture,layers,hidden,heads,vocab,seq,device,devices,data,tensor,pipeline,"
      "micro_batch,global_batch,recompute,attention,precision,framework,step_time_s";
  const auto row = [](const std::string& id, const std::string& architecture,
                      const std::string& heads, const std::string& framework) {
    return id + ",s," + architecture + ",4,1024," + heads +
           ",32000,1024,A100-80,8,8,1,1,1,8,none,flash,bf16," + framework + ",0.1\n";
  };
  const auto warned = [&](const std::string& text) {
    write("steps.csv", text);
    const Ended ended = orrery({"validate", "steps.csv"});
    EXPECT_EQ(ended.status, 0) << ended.error;
    return ended.error + ended.out;
  };
  using testing::HasSubstr;
  EXPECT_THAT(warned(columns + "\n" + row("a", "gpt", "16", "megatron")),
              testing::Not(HasSubstr("warning")));
  EXPECT_THAT(
      warned(columns + ",micro_bach\n" +
             "a,s,gpt,4,1024,16,32000,1024,A100-80,8,8,1,1,1,8,none,flash,bf16,megatron,0.1,"
             "4\n"),
      HasSubstr("warning: steps.csv: found column \"micro_bach\", which is not read"));
  EXPECT_THAT(warned(columns + "\n" + row("a", "gpt", "16", "megatronn")),
              HasSubstr("warning: steps.csv:2: framework: found \"megatronn\""));
  EXPECT_THAT(warned(columns + "\n" + row("a", "gpt", "15", "megatron")),
              HasSubstr("warning: steps.csv:2: heads: found 15, which do not divide 1024"));
  EXPECT_THAT(
      warned(columns + "\n" + row("a", "gpt", "16", "megatron") + row("a", "gpt", "8", "megatron")),
      HasSubstr("warning: steps.csv:3: id: found \"a\""));
  write("steps.csv", columns + "\n" + row("a", "lama", "16", "megatron"));
  EXPECT_THAT(orrery({"validate", "steps.csv", "--rows"}).out,
              HasSubstr("no model of architecture \"lama\"; there are gpt and llama"));
  write("steps.csv", columns + ",id\n");
  EXPECT_THAT(orrery({"validate", "steps.csv"}).error,
              HasSubstr("steps.csv:1: found column \"id\" twice"));
}

TEST_F(BadInput, MoreThanTheMachineHolds) {
  expect_failures({
      {kSimulate + Words{"--steps", "1000000"}, {}, kFailed, "needs [0-9.]+ [GT]iB of memory"},
      {kRun + Words{"--steps", "1000000", "--record", "1000000"},
       {},
       kFailed,
       "needs [0-9.]+ [GT]iB"},
      {kRun,
       {{"model.json", "\"n_embd\": 32", "\"n_embd\": 9999996"}},
       kFailed,
       "the run needs [0-9.]+ [GT]iB"},
  });
}

#ifdef ORRERY_MPI
/// The lines that the program itself wrote; MPI and its libraries write others around them.
std::vector<std::string> own_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("orrery: ")) lines.push_back(line);
  }
  return lines;
}

// Every process sees the fault; one of them tells it.
TEST_F(BadInput, Processes) {
  ProcessOptions options;
  options.folder = folder();
  const auto mpirun = [&](const char* ranks) {
    return run_process("/usr/bin/env",
                       Words{"mpirun", "--allow-run-as-root", "--oversubscribe", "-n", ranks,
                             ORRERY_BINARY_DIR "/orrery"} +
                           kRun,
                       options);
  };
  const auto before = content_of(folder());
  Ended ended = mpirun("3");
  if (ended.status == 127) GTEST_SKIP() << "no mpirun here";
  EXPECT_EQ(ended.status, kBadInput) << ended.error;
  EXPECT_THAT(
      own_lines(ended.error),
      testing::ElementsAre(testing::StartsWith("orrery: plan.toml: the plan has 2 ranks, but 3 ")))
      << ended.error;
  std::ofstream(folder() / "text.txt") << "short";
  ended = mpirun("2");
  EXPECT_EQ(ended.status, kBadInput) << ended.error;
  EXPECT_THAT(own_lines(ended.error),
              testing::ElementsAre(testing::StartsWith("orrery: text.txt: holds 5 tokens")))
      << ended.error;
  EXPECT_EQ(content_of(folder()).size(), before.size());
}
#endif

}  // namespace
}  // namespace orrery::app
