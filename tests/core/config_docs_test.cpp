// The examples in docs/files.md are files that can be read.

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "core/config/atomic_file.h"
#include "core/config/read.h"
#include "tests/core/temporary_folder.h"

namespace orrery::core {
namespace {

/// The ```toml blocks below the heading that starts with `heading`, up to the next heading.
std::vector<std::string> examples_under(const std::string& heading) {
  const std::string text = read_whole_file(std::string(ORRERY_SOURCE_DIR) + "/docs/files.md");
  const auto begin = text.find("\n## " + heading);
  EXPECT_NE(begin, std::string::npos) << heading;
  const std::string section = text.substr(begin, text.find("\n## ", begin + 1) - begin);
  const std::string fence = "```toml\n";
  std::vector<std::string> blocks;
  for (auto at = section.find(fence); at != std::string::npos; at = section.find(fence, at + 1)) {
    const auto start = at + fence.size();
    blocks.push_back(section.substr(start, section.find("```", start) - start));
  }
  return blocks;
}

TEST(DocumentedFiles, AreReadable) {
  const TemporaryFolder folder;
  const std::string device = examples_under("Device").at(0);
  EXPECT_EQ(read_device(folder.write("devices/h100-sxm.toml", device)).operators.size(), 1U);
  const std::string cluster = examples_under("Cluster").at(0);
  EXPECT_EQ(read_cluster(folder.write("clusters/pod.toml", cluster)).devices(), 512);
  // The networks: each in place of the first example's.
  const auto clusters = examples_under("Cluster");
  const std::string nodes = cluster.substr(cluster.find("\n[[nodes]]"));
  int networks = 0;
  for (const std::string& network : clusters) {
    if (network.rfind("[network]", 0) != 0) continue;
    ++networks;
    std::string content = "name = \"pod\"\n" + network + nodes;
    if (network.find("kind = \"graph\"") != std::string::npos) {
      content.replace(content.find("count = 64"), 10, "count = 4 ");
    }
    EXPECT_GT(read_cluster(folder.write("clusters/network.toml", content)).devices(), 0);
  }
  EXPECT_EQ(networks, 5);
  const std::string part = examples_under("Cluster").at(1);
  EXPECT_EQ(read_cluster(folder.write("clusters/half.toml", part)).devices(), 256);
  // On more nodes, so that there is a fourth leaf.
  std::string larger = cluster;
  larger.replace(larger.find("count = 64"), 10, "count = 128");
  const Perturbations perturbations = read_perturbations(
      folder.write("slow.toml", examples_under("What disturbs a simulation").at(0)),
      read_cluster(folder.write("clusters/larger.toml", larger)));
  EXPECT_EQ(perturbations.background.size(), 1U);
  const std::string model = examples_under("Click-through model").at(0);
  EXPECT_EQ(read_model(folder.write("deepfm.toml", model)).name, "deepfm");
  const std::string job = examples_under("Job").at(0);
  EXPECT_EQ(read_job(folder.write("job.toml", job)).steps, 100);
  const auto plans = examples_under("Plan");
  EXPECT_EQ(read_plan(folder.write("dense.toml", plans.at(0))).devices(), 512);
  const std::string head = plans.at(0).substr(0, plans.at(0).find("[dense]"));
  EXPECT_EQ(read_plan(folder.write("sparse.toml", head + plans.at(1))).devices(), 8);
}

}  // namespace
}  // namespace orrery::core
