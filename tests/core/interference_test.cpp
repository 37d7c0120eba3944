#include "core/interference.h"

#include <gtest/gtest.h>

namespace orrery::core {
namespace {

// 10 s of work from 0 on, a communication from 2 to 8 and one from 5 to 14, factor 2: 2 s are done alone,
// 6 s beside them until 14, the last 2 s alone until 16.
TEST(BesideCommunication, TakesLongerWhileAnyCommunicationIsUnderWay) {
  BesideCommunication run(2.0);
  run.compute(Seconds(0), Seconds(10));
  EXPECT_EQ(run.end(), Seconds(10));
  EXPECT_TRUE(run.communication_starts(Seconds(2)));
  EXPECT_EQ(run.end(), Seconds(2 + 8 * 2));
  EXPECT_FALSE(run.communication_starts(Seconds(5)));
  EXPECT_FALSE(run.communication_ends(Seconds(8)));
  EXPECT_EQ(run.end(), Seconds(18));
  EXPECT_TRUE(run.communication_ends(Seconds(14)));
  EXPECT_EQ(run.end(), Seconds(16));
}

TEST(BesideCommunication, StartsAtTheSlowerRateBesideWhatIsUnderWay) {
  BesideCommunication run(1.5);
  EXPECT_FALSE(run.communication_starts(Seconds(0)));
  run.compute(Seconds(1), Seconds(4));
  EXPECT_EQ(run.end(), Seconds(1 + 4 * 1.5));
  run.stop_computing();
  EXPECT_FALSE(run.communication_ends(Seconds(7)));
}

TEST(BesideCommunication, ChangesNothingWithoutAFactor) {
  BesideCommunication run;
  run.compute(Seconds(0), Seconds(3));
  EXPECT_FALSE(run.communication_starts(Seconds(1)));
  EXPECT_EQ(run.end(), Seconds(3));
}

TEST(TakesFromComputing, AreCollectivesAndContextRings) {
  for (const Stream stream : {Stream::Tensor, Stream::Context, Stream::Expert, Stream::SendContext,
                              Stream::ReceiveContext, Stream::Data, Stream::Gather}) {
    EXPECT_TRUE(takes_from_computing(stream)) << stream_name(stream);
  }
  for (const Stream stream : {Stream::Compute, Stream::SendActivation, Stream::ReceiveGradient,
                              Stream::ParameterServer, Stream::Serve, Stream::Host}) {
    EXPECT_FALSE(takes_from_computing(stream)) << stream_name(stream);
  }
}

}  // namespace
}  // namespace orrery::core
