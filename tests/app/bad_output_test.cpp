// What cannot be written, and traces that cannot be read: tests/app/bad_input.h.

#include "tests/app/bad_input.h"

namespace orrery::app {
namespace {

using BadOutput = BadInput;

TEST_F(BadOutput, Outputs) {
  std::vector<Case> cases;
  for (const Words& command :
       {Words{"simulate", "plan.toml", "-o"}, Words{"run", "plan.toml", "-o"},
        Words{"run", "plan.toml", "--weights-out"}, Words(kPlan.begin(), kPlan.end() - 1)}) {
    cases.push_back({command + Words{"nowhere/x.h5"}, {}, kBadInput, "there is no folder nowhere"});
    cases.push_back({command + Words{"."}, {}, kBadInput, "is a folder; name a file"});
    cases.push_back({command + Words{""}, {}, kBadInput, "name is empty"});
    cases.push_back({command + Words{"/proc/x.h5"}, {}, kFailed, "/proc/x.h5: cannot write"});
  }
  for (const char* command : {"simulate", "run"}) {
    for (const char* name : {"x.txt", "x", ".h5"}) {
      cases.push_back({{command, "plan.toml", "-o", name},
                       {},
                       kBadInput,
                       "a trace's name ends in .h5, .json, .json.gz"});
    }
  }
  cases.push_back(
      {{"calibrate", "--ranks", "1", "-o", "text.txt"}, {}, kBadInput, "text.txt: .*Not a dir"});
  cases.push_back(
      {{"calibrate", "--ranks", "1", "-o", "text.txt/x"}, {}, kBadInput, "Not a directory"});
  expect_failures(cases);
}

// A file size limit stands for a disk that fills up while a file is written: 1 KiB holds none of
// these files. What stood there before is untouched.
TEST_F(BadOutput, FullDisks) {
  ASSERT_EQ(orrery({"simulate", "plan.toml", "-o", "trace.h5"}).status, 0);
  ProcessOptions full;
  full.largest_file = 128;
  std::ofstream(folder() / "old.h5") << "what stood there";
  std::vector<Case> cases;
  for (const std::string name : {"new.h5", "new.json", "new.json.gz", "old.h5"}) {
    cases.push_back({{"simulate", "plan.toml", "-o", name},
                     {},
                     kFailed,
                     name + ": cannot write: File too",
                     full});
    cases.push_back(
        {{"run", "plan.toml", "-o", name}, {}, kFailed, name + ": cannot write: File too", full});
  }
  cases.push_back(
      {{"run", "plan.toml", "--weights-out", "old.h5"}, {}, kFailed, "old.h5: cannot write", full});
  cases.push_back({kPlan, {}, kFailed, "new.toml: cannot write", full});
  cases.push_back({{"view", "trace.h5", "--screenshot", "new.png"},
                   {},
                   kFailed,
                   "new.png: cannot write",
                   full});
  for (const Case& c : cases) expect_failure(c);
}

// /dev/full answers every write as a full disk does. It is reached by a link: a program that
// replaced its output instead of writing to it would replace the link, not the device.
TEST_F(BadOutput, FullDevices) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  fs::create_symlink("/dev/full", folder() / "full.h5");
  for (const Words& command :
       {Words{"simulate", "plan.toml", "-o"}, Words{"run", "plan.toml", "-o"},
        Words{"run", "plan.toml", "--weights-out"}, Words(kPlan.begin(), kPlan.end() - 1)}) {
    expect_failure({command + Words{"full.h5"},
                    {},
                    kFailed,
                    "full.h5: cannot write: No space left on device"});
    EXPECT_TRUE(fs::is_symlink(folder() / "full.h5"));
  }
}

TEST_F(BadOutput, Traces) {
  ASSERT_EQ(orrery({"simulate", "plan.toml", "-o", "trace.h5"}).status, 0);
  ASSERT_EQ(orrery({"simulate", "plan.toml", "-o", "trace.json"}).status, 0);
  ASSERT_EQ(orrery({"simulate", "plan.toml", "-o", "trace.json.gz"}).status, 0);
  std::vector<Case> cases;
  const auto view = [](const std::string& file, const Words& more = {}) {
    return Words{"view", file, "--screenshot", "new.png"} + more;
  };
  for (const std::string name : {"trace.h5", "trace.json", "trace.json.gz"}) {
    const std::string whole = read_all(folder() / name);
    for (const std::size_t left :
         {std::size_t{0}, std::size_t{1}, whole.size() / 2, whole.size() - 2}) {
      const std::string cut = "cut" + std::to_string(left) + name.substr(5);
      std::ofstream(folder() / cut, std::ios::binary) << whole.substr(0, left);
      cases.push_back({view(cut), {}, kBadInput, cut + ": "});
    }
    std::ofstream(folder() / ("foreign" + name.substr(5))) << "{\"traceEvents\": []}";
    cases.push_back({view("foreign" + name.substr(5)), {}, kBadInput, "foreign.*: "});
  }
  // What HDF5 reads alone, without the checksum before it.
  std::ofstream(folder() / "bare.h5", std::ios::binary)
      << read_all(folder() / "trace.h5").substr(512);
  cases.push_back({view("bare.h5"), {}, kBadInput, "bare.h5: .*not written by orrery"});
  for (const char* size :
       {"1x1", "0x0", "-5x5", "100000x100000", "99999999999x300", "800", "800x", "axb"}) {
    cases.push_back({view("trace.h5", {"--size", size}), {}, kBadInput, "size"});
  }
  for (const char* step : {"-1", "1"}) {
    cases.push_back({view("trace.h5", {"--step", step}), {}, kBadInput, "has step 0"});
  }
  // Of a run of 5 steps the last two are recorded.
  ASSERT_EQ(orrery({"run", "plan.toml", "--steps", "5", "--record", "2", "-o", "run.h5"}).status,
            0);
  cases.push_back({view("run.h5", {"--step", "2"}), {}, kBadInput, "run.h5 has steps 3 to 4"});
  cases.push_back(
      {{"view", "trace.h5", "--screenshot", "nowhere/x.png"}, {}, kBadInput, "no folder"});
  for (const Case& c : cases) expect_failure(c);
}

// They can be looked at together, but not compared.
TEST_F(BadOutput, TracesOfDifferentModelsWarn) {
  ASSERT_EQ(orrery({"simulate", "plan.toml", "-o", "a.h5"}).status, 0);
  ASSERT_EQ(orrery({"simulate", "ctr-plan.toml", "-o", "b.h5"}).status, 0);
  const Ended other = orrery({"view", "a.h5", "b.h5", "--screenshot", "x.png"});
  EXPECT_EQ(other.status, 0) << other.error;
  EXPECT_THAT(other.error, testing::ContainsRegex("warning: a.h5 is of model .*, b.h5 of model "));
  const Ended same = orrery({"view", "a.h5", "a.h5", "--screenshot", "x.png"});
  EXPECT_EQ(same.status, 0) << same.error;
  EXPECT_EQ(same.error, "");
}

}  // namespace
}  // namespace orrery::app
