#include "engine/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "core/error.h"
#include "tests/engine/temporary_folder.h"

namespace orrery::engine {
namespace {

// A named pipe without a writer must not hold the run up for ever.
TEST(MappedFile, RefusesWhatIsNoRegularFile) {
  const TemporaryFolder folder;
  const auto pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THROW(MappedFile{pipe}, core::ConfigError);
  EXPECT_THROW(MappedFile{folder.path()}, core::ConfigError);
}

}  // namespace
}  // namespace orrery::engine
