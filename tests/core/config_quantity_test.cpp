#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/config/quantity.h"
#include "core/error.h"

namespace orrery::core {
namespace {

using ::testing::HasSubstr;

TEST(Quantity, ReadsDecimalAndBinaryPrefixes) {
  EXPECT_EQ(parse<Bytes>("80 GB"), Bytes(80e9));
  EXPECT_EQ(parse<Bytes>("64 GiB"), Bytes(64.0 * 1024 * 1024 * 1024));
  EXPECT_EQ(parse<Bytes>("1.5 TB"), Bytes(1.5e12));
  EXPECT_EQ(parse<Bytes>("3B"), Bytes(3));
}

TEST(Quantity, ReadsEveryDimension) {
  EXPECT_EQ(parse<BytesPerSecond>("450 GB/s"), BytesPerSecond(450e9));
  EXPECT_EQ(parse<BytesPerSecond>("200 Gbit/s"), BytesPerSecond(25e9));
  EXPECT_DOUBLE_EQ(parse<Seconds>("2.8 us").value, 2.8e-6);
  EXPECT_DOUBLE_EQ(parse<Seconds>("2.8 µs").value, 2.8e-6);
  EXPECT_EQ(parse<FlopsPerSecond>("989 TFLOP/s"), FlopsPerSecond(989e12));
  EXPECT_EQ(parse_quantity("0.7 kW", Dimension::Power, false), 700);
  EXPECT_EQ(parse_quantity("2.50 USD/h", Dimension::Price, false), 2.5);
}

TEST(Quantity, ZeroNeedsNoUnitWhereItIsAllowed) {
  EXPECT_EQ(parse<Seconds>("0", true), Seconds(0));
  EXPECT_EQ(parse<Seconds>("0 us", true), Seconds(0));
}

struct Bad {
  const char* text;
  const char* says;
};

class BadBandwidth : public ::testing::TestWithParam<Bad> {};

TEST_P(BadBandwidth, IsRefusedNamingWhatIsAllowed) {
  try {
    parse<BytesPerSecond>(GetParam().text);
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr(GetParam().says));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Texts, BadBandwidth,
    ::testing::Values(Bad{"450", "\"450\" needs a unit, e.g. \"450 GB/s\""},
                      Bad{"450 GB", "\"GB\" is no unit of bandwidth; allowed are B/s"},
                      Bad{"450 gb/s", "\"gb/s\" is no unit of bandwidth"},
                      Bad{"450 Gbps", "Gbit/s"}, Bad{"", "is no bandwidth"},
                      Bad{"fast", "write a number and a unit"}, Bad{"GB/s", "is no bandwidth"},
                      Bad{"-450 GB/s", "is negative"}, Bad{"0 GB/s", "must be above zero"},
                      Bad{"0", "must be above zero"}, Bad{"nan GB/s", "is not a finite number"},
                      Bad{"inf GB/s", "is not a finite number"},
                      Bad{"1e400 GB/s", "beyond what can be represented"},
                      Bad{"1e290 GB/s", "is an impossible bandwidth"},
                      Bad{"1e-30 GB/s", "is an impossible bandwidth"},
                      Bad{"4 5 GB/s", "\"5 GB/s\" is no unit"},
                      Bad{"1,000 GB/s", "\",000 GB/s\" is no unit"}));

TEST(Quantity, IsWrittenWithTheUnitThatReadsBest) {
  EXPECT_EQ(format(BytesPerSecond(450e9)), "450 GB/s");
  EXPECT_EQ(format(Bytes(80e9)), "80 GB");
  EXPECT_EQ(format(Bytes(64.0 * 1024 * 1024 * 1024)), "64 GiB");
  EXPECT_EQ(format(Seconds(2.8e-6)), "2.8 us");
  EXPECT_EQ(format(Seconds(0)), "0 ps");
}

// Whatever the value, its text gives back the same bits.
TEST(Quantity, RoundTripsExactly) {
  double value = 1.0 / 3.0;
  for (int i = 0; i < 200; ++i) {
    value *= 1.25;
    EXPECT_EQ(parse<Bytes>(format(Bytes(10 + value))), Bytes(10 + value));
    EXPECT_EQ(parse<BytesPerSecond>(format(BytesPerSecond(9 + value / 1e15))),
              BytesPerSecond(9 + value / 1e15));
  }
  for (double seconds = 1e-12 / 3; seconds < 1e6; seconds *= 1.7) {
    EXPECT_EQ(parse<Seconds>(format(Seconds(seconds))), Seconds(seconds));
  }
}

}  // namespace
}  // namespace orrery::core
