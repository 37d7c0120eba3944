// Every file in configs/ is read; the models' parameters are those their sources state.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "core/check/plan_check.h"
#include "core/config/atomic_file.h"
#include "core/config/read.h"
#include "core/error.h"
#include "tests/core/temporary_folder.h"

namespace orrery::core {
namespace {

namespace fs = std::filesystem;

const fs::path kConfigs = fs::path(ORRERY_SOURCE_DIR) / "configs";

std::vector<fs::path> files_in(const char* folder, const char* extension) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(kConfigs / folder)) {
    if (entry.path().extension() == extension) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST(Configs, EveryModelIsRead) {
  const auto transformers = files_in("models", ".json");
  EXPECT_GE(transformers.size(), 24U);
  for (const fs::path& file : transformers) {
    SCOPED_TRACE(file.string());
    EXPECT_TRUE(read_model(file).transformer.has_value());
  }
  for (const fs::path& file : files_in("models", ".toml")) {
    SCOPED_TRACE(file.string());
    EXPECT_TRUE(read_model(file).click_through.has_value());
  }
}

TEST(Configs, EveryModelHasASource) {
  const std::string sources = read_whole_file(kConfigs / "models" / "SOURCES.md");
  for (const auto& entry : fs::directory_iterator(kConfigs / "models")) {
    const std::string name = entry.path().stem().string();
    if (name == "SOURCES" || name.rfind("megatron-", 0) == 0) continue;
    const std::string whole = entry.is_directory() ? entry.path().filename().string() : name;
    EXPECT_NE(sources.find(whole), std::string::npos) << whole;
  }
}

// Counts by OpenAI, Meta, Mistral AI and PyTorch's BertForMaskedLM. The last two are GPT-2's
// (vocab + positions)·h + layers·(12h² + 13h) + 2h: 52305·12288 + 96·.. and 512·256 + 4·...
TEST(Configs, ReleasedModelsHaveTheirParameters) {
  const std::map<std::string, std::int64_t> kParameters = {{"gpt2", 124'439'808},
                                                           {"gpt2-medium", 354'823'168},
                                                           {"gpt2-large", 774'030'080},
                                                           {"gpt2-xl", 1'557'611'200},
                                                           {"llama-2-7b", 6'738'415'616},
                                                           {"llama-2-70b", 68'976'648'192},
                                                           {"llama-3-8b", 8'030'261'248},
                                                           {"llama-3-70b", 70'553'706'496},
                                                           {"llama-3.1-405b", 405'853'388'800},
                                                           {"mixtral-8x7b", 46'702'792'704},
                                                           {"bert-large", 335'174'458},
                                                           {"gpt3-175b", 174'604'259'328},
                                                           {"gpt-nano", 3'290'624}};
  for (const auto& [name, parameters] : kParameters) {
    EXPECT_EQ(parameter_count(*read_model(kConfigs / "models" / name).transformer), parameters)
        << name;
  }
}

// Table 1 of arXiv 2104.04473 rounds to a tenth of a billion.
TEST(Configs, MegatronsModelsHaveTheirParameters) {
  const std::map<std::string, double> kBillions = {
      {"1.7b", 1.7}, {"3.6b", 3.6},   {"7.5b", 7.5},   {"18b", 18.4},   {"39b", 39.1},
      {"76b", 76.1}, {"145b", 145.6}, {"310b", 310.1}, {"530b", 529.6}, {"1t", 1008.0}};
  for (const auto& [name, billions] : kBillions) {
    const Model model = read_model(kConfigs / "models" / ("megatron-" + name));
    EXPECT_NEAR(static_cast<double>(parameter_count(*model.transformer)) / 1e9, billions, 0.06)
        << name;
  }
}

TEST(Configs, EveryDeviceIsRead) {
  const auto files = files_in("devices", ".toml");
  EXPECT_GE(files.size(), 11U);
  for (const fs::path& file : files) {
    SCOPED_TRACE(file.string());
    EXPECT_FALSE(read_device(file).name.empty());
  }
}

TEST(Configs, EveryClusterIsRead) {
  const auto files = files_in("clusters", ".toml");
  EXPECT_GE(files.size(), 9U);
  for (const fs::path& file : files) {
    SCOPED_TRACE(file.string());
    const Cluster cluster = read_cluster(file);
    EXPECT_EQ(cluster.node_of(cluster.devices() - 1), cluster.nodes() - 1);
  }
}

TEST(Configs, ClustersHaveTheDevicesTheirNamesSay) {
  const auto devices = [](const char* name) {
    return read_cluster(kConfigs / "clusters" / (std::string(name) + ".toml")).devices();
  };
  EXPECT_EQ(devices("dgx-a100-384"), 3072);
  EXPECT_EQ(devices("dgx-h100-64"), 512);
  EXPECT_EQ(devices("dgx-h100-2048"), 16384);
  EXPECT_EQ(devices("dgx-b200-64"), 512);
  EXPECT_EQ(devices("v100-64x8"), 512);
  EXPECT_EQ(devices("dgx-2"), 256);
  EXPECT_EQ(devices("v100-a100-16"), 128);
  EXPECT_EQ(devices("llama-3-roce-24k"), 24576);
  EXPECT_EQ(devices("dgx-superpod-h100"), 1024);
  EXPECT_EQ(devices("perlmutter-gpu"), 6144);
}

TEST(Configs, EveryJobIsRead) {
  for (const fs::path& file : files_in("jobs", ".toml")) {
    SCOPED_TRACE(file.string());
    EXPECT_GE(read_job(file).global_batch, 1);
  }
}

/// Reads beginnings of a file, cut at every seventh byte; none may do worse than throw ConfigError.
template <class Read>
void read_cuts(const fs::path& file, Read read) {
  const TemporaryFolder folder;
  const std::string whole = read_whole_file(file);
  for (std::size_t length = 0; length < whole.size(); length += 7) {
    try {
      read(folder.write("cut.toml", whole.substr(0, length)));
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find("cut.toml:"), std::string::npos) << error.what();
    }
  }
}

TEST(Configs, CutOffFilesAreReadOrRefused) {
  read_cuts(kConfigs / "devices" / "a100-80gb.toml", read_device);
  read_cuts(kConfigs / "jobs" / "gpt-nano-cpu.toml", read_job);
  read_cuts(kConfigs / "plans" / "llama-3-70b-512.toml", read_plan);
  read_cuts(kConfigs / "models" / "deepfm-tiny.toml", read_model);
}

TEST(Configs, EveryPlanFitsItsModelClusterAndJob) {
  std::vector<fs::path> files = files_in("plans", ".toml");
  for (const fs::path& file : files_in("published", ".toml")) {
    if (file.filename() == "plan.toml") files.push_back(file);
  }
  EXPECT_GE(files.size(), 15U);
  for (const fs::path& file : files) {
    SCOPED_TRACE(file.string());
    const Plan plan = read_plan(file);
    const auto reason = why_invalid(plan, read_model(resolve_beside(file, plan.model)),
                                    read_job(resolve_beside(file, plan.job)),
                                    read_cluster(resolve_beside(file, plan.cluster)).devices());
    EXPECT_EQ(reason, std::nullopt);
  }
}

}  // namespace
}  // namespace orrery::core
