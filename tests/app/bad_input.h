#pragma once
// A sound set of files (example_files.h) to spoil, and what must be true of a command that is given it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "tests/app/example_files.h"
#include "tests/app/process.h"
#include "tests/core/temporary_folder.h"

namespace orrery::app {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr int kFailed = 1;
constexpr int kBadInput = 2;

/// In `file` the first `from` becomes `to`; an empty `from` stands for the whole content.
struct Spoilt {
  std::string file, from, to;
};

struct Case {
  Words arguments;
  std::vector<Spoilt> spoilt;
  int status;
  std::string message;  ///< Regular expression.
  ProcessOptions options = {};
};

inline const Words kPlan = {"plan",  "--model",  "model.json", "--cluster", "cluster.toml",
                            "--job", "job.toml", "-o",         "new.toml"};
inline const Words kSimulate = {"simulate", "plan.toml", "-o", "new.h5"};
inline const Words kRun = {"run", "plan.toml", "-o", "new.h5", "--weights-out", "new.safetensors"};
inline const Words kRunCtr = {"run", "ctr-plan.toml", "-o", "new.h5"};

inline Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

inline std::string read_all(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::map<std::string, std::string> content_of(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    files[entry.path().string()] = entry.is_regular_file() ? read_all(entry.path()) : "";
  }
  return files;
}

inline void spoil(const fs::path& folder, const Spoilt& spoilt) {
  std::string content = read_all(folder / spoilt.file);
  const auto at = content.find(spoilt.from);
  ASSERT_NE(at, std::string::npos) << spoilt.from << " in " << spoilt.file;
  content.replace(at, spoilt.from.empty() ? content.size() : spoilt.from.size(), spoilt.to);
  std::ofstream(folder / spoilt.file, std::ios::binary) << content;
}

#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kMostMemory = std::size_t{8} << 30;  // Its shadow counts too.
#else
constexpr std::size_t kMostMemory = std::size_t{1} << 30;
#endif

class BadInput : public testing::Test {
 protected:
  BadInput() { write_example_files(folder_.path()); }

  Ended orrery(const Words& arguments, ProcessOptions options = {}) const {
    options.folder = folder_.path();
    return run_process(ORRERY_BINARY_DIR "/orrery", arguments, options);
  }

  void write(const std::string& file, const std::string& content) const {
    std::ofstream(folder_.path() / file, std::ios::binary) << content;
  }

  /// Runs the case in the folder as it is; nothing in it may change.
  void expect_failure(const Case& c) const {
    std::string line;
    for (const std::string& word : c.arguments) line += word + " ";
    for (const Spoilt& s : c.spoilt) line += "| " + s.file + ": " + s.to.substr(0, 60) + " ";
    SCOPED_TRACE(line);
    const auto before = content_of(folder_.path());
    const Ended ended = orrery(c.arguments, c.options);
    EXPECT_EQ(ended.status, c.status) << how(ended) << ": " << ended.error;
    EXPECT_THAT(ended.error, testing::StartsWith("orrery: "));
    EXPECT_EQ(std::count(ended.error.begin(), ended.error.end(), '\n'), 1) << ended.error;
    EXPECT_THAT(ended.error, testing::ContainsRegex(c.message));
    EXPECT_LT(ended.peak_bytes, kMostMemory);
    EXPECT_TRUE(content_of(folder_.path()) == before) << "files have changed";
  }

  void expect_failures(const std::vector<Case>& cases) const {
    for (const Case& c : cases) {
      write_example_files(folder_.path());
      for (const Spoilt& s : c.spoilt) spoil(folder_.path(), s);
      expect_failure(c);
    }
  }

  const fs::path& folder() const { return folder_.path(); }

 private:
  core::TemporaryFolder folder_;
};

}  // namespace orrery::app
