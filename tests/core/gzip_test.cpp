#include "core/trace/gzip.h"

#include <gtest/gtest.h>

#include <string>

#include "core/error.h"

namespace orrery::core {
namespace {

// 100 MB of one letter pack to 0.1%: what is unpacked is bounded, not only what is read.
TEST(Gzip, UnpacksNoMoreThanIsAllowed) {
  const std::string text(100'000'000, 'a');
  const std::string packed = gzip(text);
  EXPECT_LT(packed.size(), text.size() / 200);
  EXPECT_EQ(gunzip(packed, "a.gz", text.size()), text);
  EXPECT_THROW(gunzip(packed, "a.gz", text.size() - 1), ConfigError);
}

}  // namespace
}  // namespace orrery::core
