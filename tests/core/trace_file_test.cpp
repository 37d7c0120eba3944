#include "core/trace/trace_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "core/error.h"

namespace orrery::core {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

Seconds ns(std::int64_t n) { return Seconds(static_cast<double>(n) / 1e9); }

// Whole nanoseconds, so that what is read equals what was written.
Trace example() {
  Trace t;
  t.simulated = false;
  t.about = {{"plan", "pp2 \"quoted\""}, {"model", "tiny/ü"}};
  t.lanes = {{Rank(0), Stream::Compute, {Rank(2), Rank(4)}},
             {Rank(0), Stream::Tensor, {Rank(2), Rank(4)}},
             {Rank(1), Stream::ReceiveActivation, {}}};
  t.names = {"linear layers.0", "all_reduce layers.0", "receive \\ in"};
  t.spans = {{0, 0, SpanKind::Forward, {0, 0, 0}, 0, ns(0), ns(0), ns(1'500), Bytes(0)},
             {0, 0, SpanKind::Backward, {0, 1, 0}, 7, ns(3'000), ns(3'000), ns(4'001), Bytes(0)},
             {1,
              1,
              SpanKind::TensorCommunication,
              {0, 0, 1},
              0,
              ns(1'500),
              ns(1'600),
              ns(2'000),
              Bytes(4096)},
             {2,
              2,
              SpanKind::PipelineCommunication,
              {1, 0, 0},
              std::nullopt,
              ns(10),
              ns(2'000),
              ns(123'456'789'012),
              Bytes(1e10)}};
  t.dependency_begin = {0, 0, 2, 3, 3};
  t.dependencies = {0, 2, 0};
  t.flows = {{2, 3, Bytes(17)}};
  t.collective_begin = {0, 1};
  t.collective_spans = {2};
  t.counters = {{"memory", "GiB", Rank(1), {ns(0), ns(5)}, {1.25, 2.5}},
                {"link 0", "fraction", std::nullopt, {ns(1)}, {0.1}}};
  t.steps = {{ns(0), ns(4'001), 1.0 / 3}, {ns(4'001), ns(9'000), std::nullopt}};
  return t;
}

class TraceFile : public testing::TestWithParam<const char*> {
 protected:
  fs::path folder_ = fs::path(testing::TempDir()) / ("trace_file_" + std::to_string(getpid()));
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path file() const { return folder_ / GetParam(); }

  static std::string content(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  static void put(const fs::path& path, const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
  }
  static std::string error_of(const fs::path& path) {
    try {
      read_trace(path);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }
};

INSTANTIATE_TEST_SUITE_P(Formats, TraceFile, testing::Values("t.h5", "t.json", "t.json.gz"));

TEST_P(TraceFile, ReadsWhatItWrote) {
  write_trace(example(), file());
  EXPECT_EQ(read_trace(file()), example());
}

// Also when the second is written in another second: a file holds no time of its own.
TEST_P(TraceFile, WritesTheSameBytesTwice) {
  write_trace(example(), file());
  const std::string first = content(file());
  std::this_thread::sleep_for(std::chrono::milliseconds(1'100));
  write_trace(example(), file());
  EXPECT_EQ(content(file()), first);
}

TEST_P(TraceFile, RoundsTimesToNanoseconds) {
  Trace t = example();
  t.spans[3].end = Seconds(0.1234567894);  // 123456789.4 ns
  write_trace(t, file());
  EXPECT_EQ(read_trace(file()).spans[3].end, ns(123'456'789));
}

// A run that diverged has a loss that is not a number: the file says that there is none.
TEST_P(TraceFile, ALossThatIsNotANumberIsNone) {
  Trace t = example();
  t.steps[0].loss = std::nan("");
  write_trace(t, file());
  EXPECT_EQ(read_trace(file()).steps[0].loss, std::nullopt);
}

TEST_P(TraceFile, AnEmptyTraceIsATrace) {
  write_trace(Trace{}, file());
  const Trace read = read_trace(file());
  EXPECT_TRUE(read.spans.empty());
  EXPECT_TRUE(read.simulated);
}

TEST_P(TraceFile, ACutOffFileIsBadInput) {
  write_trace(example(), file());
  const std::string whole = content(file());
  for (const double part : {0.1, 0.5, 0.9}) {
    put(file(), whole.substr(0, static_cast<std::size_t>(part * double(whole.size()))));
    EXPECT_THAT(error_of(file()), HasSubstr(file().string())) << part;
  }
}

TEST_P(TraceFile, AForeignFileIsBadInput) {
  for (const char* text : {"", "hello", "{}", "[1,2]", R"({"traceEvents":[]})"}) {
    put(file(), text);
    EXPECT_THAT(error_of(file()), HasSubstr(file().string() + ": ")) << text;
  }
}

TEST_P(TraceFile, AMissingFileIsBadInput) {
  EXPECT_THAT(error_of(file()), AllOf(HasSubstr(file().string()), HasSubstr("No such file")));
}

TEST_P(TraceFile, AFlippedByteNeverCrashes) {
  write_trace(example(), file());
  const std::string whole = content(file());
  for (std::size_t i = 0; i < whole.size(); i += 97) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x55);
    put(file(), damaged);
    error_of(file());  // Either a trace that is consistent or a ConfigError.
  }
}

TEST_P(TraceFile, AContradictionIsBadInput) {
  Trace t = example();
  t.spans[2].transfer = ns(2'001);  // It ends at 2,000 ns.
  write_trace(t, file());
  EXPECT_THAT(error_of(file()), HasSubstr("span 2: it does not start, transfer and end"));
}

TEST_P(TraceFile, AMissingFolderLeavesNothing) {
  EXPECT_THROW(write_trace(example(), folder_ / "none" / GetParam()), SystemError);
  EXPECT_FALSE(fs::exists(folder_ / "none"));
}

TEST_P(TraceFile, ANameOfAnotherEndingIsRefused) {
  for (const char* other : {".txt", "x"}) {
    fs::path path = file();
    path += other;
    EXPECT_THROW(write_trace(example(), path), ConfigError) << path;
    EXPECT_FALSE(fs::exists(path));
  }
}

TEST(TraceFileVersion, AnotherOneIsNamed) {
  const std::string path = testing::TempDir() + "version.json";
  write_trace(example(), path);
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  std::string content = text.str();
  const std::string key = "\"version\":";
  content.replace(content.find(key), key.size() + 1, key + "1");
  std::ofstream(path) << content;
  try {
    read_trace(path);
    FAIL() << "another version was read";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("trace format version 1, this program reads 2"));
  }
  fs::remove(path);
}

// A limit on file sizes stands for a full disk: the write fails half-way (EFBIG, not ENOSPC).
TEST_P(TraceFile, AFullDiskLeavesTheOldFile) {
  put(file(), "old");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{100, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THROW(write_trace(example(), file()), SystemError);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(content(file()), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

TEST_P(TraceFile, AFolderThatIsAFileIsASystemError) {
  put(folder_ / "file", "x");
  EXPECT_THROW(write_trace(example(), folder_ / "file" / GetParam()), SystemError);
  EXPECT_EQ(content(folder_ / "file"), "x");
}

}  // namespace
}  // namespace orrery::core
