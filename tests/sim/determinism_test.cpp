// The same input gives the same bytes, on every run and optimisation level.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>

namespace {

std::string output_of(const std::string& program) {
  const std::string path = std::string(ORRERY_BINARY_DIR) + "/" + program;
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(path.c_str(), "r"), pclose);
  std::array<char, 64> line{};
  if (pipe == nullptr || fgets(line.data(), line.size(), pipe.get()) == nullptr) return "";
  return line.data();
}

TEST(Determinism, TracesAreTheSameBytesAtEveryOptimisationLevel) {
  const std::string hash = output_of("trace_hash");
  ASSERT_EQ(hash.size(), 17u);  // 16 digits and the end of the line.
  EXPECT_EQ(hash, output_of("trace_hash"));
  EXPECT_EQ(hash, output_of("trace_hash_unoptimised"));
}

}  // namespace
