// Walks every #include of the repository and holds it to the design's graph:
//
//   core ← costmodel, sim, engine, viz ← study ← app
//
// where siblings never include each other, and heavy third-party headers stay out of our headers.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

struct Source {
  std::string path;  // Relative to the repository's root.
  std::string text;
};

const std::vector<std::string> kFolders = {"core", "costmodel", "sim", "engine",
                                           "viz",  "study",     "app"};

// What each folder's files may include, besides their own folder.
const std::map<std::string, std::set<std::string>> kBelow = {
    {"core", {}},
    {"costmodel", {"core"}},
    {"sim", {"core"}},
    {"engine", {"core"}},
    {"viz", {"core"}},
    {"study", {"core", "costmodel", "sim", "engine", "viz"}},
    {"app", {"core", "costmodel", "sim", "engine", "viz", "study"}},
};

// Third-party headers that cost a second or more for each file that sees them.
const std::vector<std::string> kHeavy = {"boost/graph/", "Eigen/", "toml++/", "nlohmann/json.hpp"};

std::string folder_of(const std::string& path) { return path.substr(0, path.find('/')); }

bool starts_with(const std::string& text, const std::string& prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

// tests/sim/x_test.cpp may include what sim/x.cpp may; tests/agreement crosses the folders as study
// does.
bool allowed(const Source& from, const std::string& included) {
  std::string own = folder_of(from.path);
  if (own == "tests" || own == "bench") {
    const std::string rest = from.path.substr(own.size() + 1);
    if (starts_with(included, own + "/")) return true;
    own = kBelow.contains(folder_of(rest)) ? folder_of(rest) : "study";
  }
  const std::string target = folder_of(included);
  return target == own || kBelow.at(own).contains(target);
}

std::vector<std::string> faults_of(const Source& source) {
  static const std::regex kInclude(R"re(^\s*#\s*include\s*(["<])([^">]+)[">])re");
  std::vector<std::string> faults;
  std::istringstream lines(source.text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::smatch match;
    if (!std::regex_search(line, match, kInclude)) continue;
    const std::string where = source.path + ":" + std::to_string(number) + ": ";
    const std::string included = match[2];
    const bool heavy = std::any_of(kHeavy.begin(), kHeavy.end(),
                                   [&](const auto& h) { return starts_with(included, h); });
    if (match[1] == "<") {
      if (heavy && source.path.ends_with(".h")) {
        faults.push_back(where + "<" + included + "> is heavy: include it in a .cpp file");
      }
    } else if (included.find("..") != std::string::npos ||
               included.find('/') == std::string::npos) {
      faults.push_back(where + "\"" + included + "\" is not rooted at the repository");
    } else if (!allowed(source, included)) {
      faults.push_back(where + "\"" + included + "\" is not below " + folder_of(source.path));
    }
  }
  return faults;
}

std::vector<Source> sources_under(const fs::path& root, const std::string& folder) {
  std::vector<Source> sources;
  if (!fs::exists(root / folder)) return sources;
  for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".h" && extension != ".cpp" && extension != ".cu") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    sources.push_back({fs::relative(entry.path(), root).generic_string(),
                       std::string(std::istreambuf_iterator<char>(file), {})});
  }
  return sources;
}

TEST(IncludeGraph, PointsDownInEveryFile) {
  std::vector<std::string> faults;
  std::size_t files = 0;
  std::vector<std::string> folders = kFolders;
  folders.insert(folders.end(), {"tests", "bench"});
  for (const std::string& folder : folders) {
    for (const Source& source : sources_under(ORRERY_SOURCE_DIR, folder)) {
      ++files;
      for (std::string& fault : faults_of(source)) faults.push_back(std::move(fault));
    }
  }
  EXPECT_GT(files, 10U) << "no sources found under " << ORRERY_SOURCE_DIR;
  std::sort(faults.begin(), faults.end());
  for (const std::string& fault : faults) ADD_FAILURE() << fault;
}

// A header by its name, one of engine/operators/ or an app command also without its ending.
TEST(Architecture, NamesEveryHeader) {
  std::ifstream file(fs::path(ORRERY_SOURCE_DIR) / "ARCHITECTURE.md");
  const std::string page(std::istreambuf_iterator<char>(file), {});
  for (const std::string& folder : kFolders) {
    for (const Source& source : sources_under(ORRERY_SOURCE_DIR, folder)) {
      const fs::path path(source.path);
      if (path.extension() != ".h" || path.parent_path().filename() == "collective") continue;
      EXPECT_TRUE(page.find("`" + path.filename().string() + "`") != std::string::npos ||
                  page.find("`" + path.stem().string() + "`") != std::string::npos)
          << "ARCHITECTURE.md has no line for " << source.path;
    }
  }
}

TEST(IncludeGraph, AllowsTheFoldersBelow) {
  EXPECT_TRUE(
      faults_of({"sim/a.cpp", "#include \"core/units.h\"\n#include \"sim/a.h\"\n"}).empty());
  EXPECT_TRUE(faults_of({"study/a.cpp", "#include \"viz/a.h\"\n#include \"sim/a.h\"\n"}).empty());
  EXPECT_TRUE(faults_of({"tests/sim/a_test.cpp", "#include \"sim/a.h\"\n"}).empty());
  EXPECT_TRUE(faults_of({"tests/agreement/a_test.cpp", "#include \"engine/a.h\"\n"}).empty());
  EXPECT_TRUE(faults_of({"core/a.cpp", "#include <toml++/toml.h>\n"}).empty());
}

TEST(IncludeGraph, ForbidsSiblingsAndTheFoldersAbove) {
  EXPECT_EQ(faults_of({"core/a.h", "#include \"sim/a.h\"\n"}).size(), 1U);
  EXPECT_EQ(faults_of({"sim/a.h", "\n#include \"engine/a.h\"\n"}).size(), 1U);
  EXPECT_EQ(faults_of({"viz/a.cpp", "#  include \"study/a.h\"\n"}).size(), 1U);
  EXPECT_EQ(faults_of({"study/a.cpp", "#include \"app/a.h\"\n"}).size(), 1U);
  EXPECT_EQ(faults_of({"tests/sim/a_test.cpp", "#include \"engine/a.h\"\n"}).size(), 1U);
}

TEST(IncludeGraph, ForbidsUnrootedPathsAndHeavyHeaders) {
  EXPECT_EQ(faults_of({"sim/a.cpp", "#include \"a.h\"\n"}).size(), 1U);
  EXPECT_EQ(faults_of({"sim/a.cpp", "#include \"../core/units.h\"\n"}).size(), 1U);
  EXPECT_EQ(faults_of({"costmodel/a.h", "#include <Eigen/Dense>\n"}).size(), 1U);
  EXPECT_EQ(faults_of({"core/a.h", "#include <boost/graph/adjacency_list.hpp>\n"}).size(), 1U);
}

}  // namespace
