#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/config/atomic_file.h"
#include "core/error.h"
#include "tests/core/temporary_folder.h"

namespace orrery::core {
namespace {

using ::testing::HasSubstr;

int files_in(const std::filesystem::path& folder) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    count += entry.exists() ? 1 : 0;
  }
  return count;
}

TEST(AtomicFile, ReplacesAFileAndLeavesNothingElse) {
  const TemporaryFolder folder;
  const auto file = folder.write("a.toml", "old");
  write_file_atomically(file, "new\ncontent\n");
  EXPECT_EQ(read_whole_file(file), "new\ncontent\n");
  EXPECT_EQ(files_in(folder.path()), 1);
}

TEST(AtomicFile, NamesTheFolderThatIsMissing) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "missing" / "a.toml";
  try {
    write_file_atomically(file, "text");
    FAIL() << "no error";
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(), HasSubstr(file.string() + ": cannot write: No such file"));
  }
}

TEST(AtomicFile, LeavesNothingBehindWhenTheTargetIsAFolder) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "target" / "full");
  EXPECT_THROW(write_file_atomically(folder.path() / "target", "text"), SystemError);
  EXPECT_EQ(files_in(folder.path()), 1);
}

// /dev/full answers every write as a full disk does.
TEST(AtomicFile, SaysThatTheDiskIsFull) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  try {
    write_file_atomically("/dev/full", "text");
    FAIL() << "no error";
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(), HasSubstr("No space left on device"));
  }
}

TEST(WholeFile, NamesTheFileThatIsMissing) {
  EXPECT_THROW(read_whole_file("no/such/file"), ConfigError);
}

TEST(WholeFile, IsNotAFolder) {
  const TemporaryFolder folder;
  EXPECT_THROW(read_whole_file(folder.path()), ConfigError);
}

}  // namespace
}  // namespace orrery::core
