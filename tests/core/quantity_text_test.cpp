#include "core/quantity_text.h"

#include <gtest/gtest.h>

namespace orrery::core {
namespace {

using namespace literals;

TEST(QuantityText, HasThreeSignificantDigits) {
  EXPECT_EQ(text(0.0123_s), "12.3 ms");
  EXPECT_EQ(text(1.5_s), "1.50 s");
  EXPECT_EQ(text(250.0_us), "250 us");
  EXPECT_EQ(text(3600.0_s), "3600 s");
  EXPECT_EQ(text(0.0_s), "0 s");
  EXPECT_EQ(text(Seconds(-1.5e-6)), "-1.50 us");
}

// 0.9996 ms and 9.996 ms would print as 1000 us and 10.00 ms without care at the borders.
TEST(QuantityText, RoundsAcrossTheBorderOfAUnit) {
  EXPECT_EQ(text(0.9996_ms), "1.00 ms");
  EXPECT_EQ(text(9.996_ms), "10.0 ms");
}

// Memory is counted in powers of two, messages and bandwidth in powers of ten.
TEST(QuantityText, CountsMemoryInGibAndBandwidthInGb) {
  EXPECT_EQ(text(1.0_GiB), "1.00 GiB");
  EXPECT_EQ(text(1.0_GB), "954 MiB");
  EXPECT_EQ(message_text(2.1_MB), "2.10 MB");
  EXPECT_EQ(text(450.0_GBps), "450 GB/s");
  EXPECT_EQ(text(0.0_B), "0 B");
}

TEST(QuantityText, SharesArePercent) { EXPECT_EQ(percent(0.4226), "42.3%"); }

TEST(QuantityText, SeparatesThousands) {
  EXPECT_EQ(count(0), "0");
  EXPECT_EQ(count(999), "999");
  EXPECT_EQ(count(1000), "1,000");
  EXPECT_EQ(count(8030261248.0), "8,030,261,248");
  EXPECT_EQ(count(-1234567), "-1,234,567");
}

}  // namespace
}  // namespace orrery::core
