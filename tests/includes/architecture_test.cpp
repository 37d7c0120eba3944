// ARCHITECTURE.md has a line for every header, and names none that is gone.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>

namespace {

namespace fs = std::filesystem;

const char* const kFolders[] = {"core", "costmodel", "sim", "engine", "viz", "study", "app"};

std::string architecture() {
  std::ifstream file(fs::path(ORRERY_SOURCE_DIR) / "ARCHITECTURE.md");
  return {std::istreambuf_iterator<char>(file), {}};
}

// Names without their endings: "max_min".
std::set<std::string> sources(bool headers_only) {
  std::set<std::string> stems;
  for (const char* folder : kFolders) {
    for (const auto& entry :
         fs::recursive_directory_iterator(fs::path(ORRERY_SOURCE_DIR) / folder)) {
      const std::string extension = entry.path().extension().string();
      if (extension == ".h" || (!headers_only && (extension == ".cpp" || extension == ".cu"))) {
        stems.insert(entry.path().stem().string());
      }
    }
  }
  return stems;
}

// Words of the text that could be names of files, whatever stands around them.
std::set<std::string> words(const std::string& text) {
  static const std::regex kWord("[a-z][a-z0-9_]*");
  return {std::sregex_token_iterator(text.begin(), text.end(), kWord),
          std::sregex_token_iterator()};
}

TEST(Architecture, NamesEveryHeader) {
  const std::set<std::string> known = words(architecture());
  ASSERT_GT(known.size(), 100U);
  for (const std::string& stem : sources(true)) {
    EXPECT_TRUE(known.contains(stem)) << stem << ".h has no line in ARCHITECTURE.md";
  }
}

TEST(Architecture, NamesNoFileThatIsGone) {
  const std::set<std::string> stems = sources(false);
  const std::string text = architecture();
  static const std::regex kFile("([a-z][a-z0-9_]*)\\.(h|cpp|cu)\\b");
  for (std::sregex_iterator m(text.begin(), text.end(), kFile), end; m != end; ++m) {
    const std::string stem = (*m)[1];
    if (stem.ends_with("_test")) continue;
    EXPECT_TRUE(stems.contains(stem)) << m->str() << " is not there";
  }
}

}  // namespace
