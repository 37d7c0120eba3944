#include "costmodel/pass_times.h"

#include <gtest/gtest.h>

namespace orrery::costmodel {
namespace {

using core::Bytes;
using core::Seconds;

PassMemory memory(double saved, double kept) {
  PassMemory stage;
  stage.saved[static_cast<std::size_t>(MemoryTerm::Activations)] = Bytes(saved);
  stage.kept[static_cast<std::size_t>(MemoryTerm::Activations)] = Bytes(kept);
  return stage;
}

// Means (1+3)/2, (2+4)/2, (1+2)/2; the longest message; the largest share 4/8, which never passes 1.
TEST(PassTimes, AreMeansOfTheStages) {
  const PipelineStages stages{.begin = {Seconds(0), Seconds(0)},
                              .forward = {Seconds(1), Seconds(3)},
                              .backward = {Seconds(2), Seconds(4)},
                              .ahead = {Seconds(0), Seconds(0)},
                              .message = {Seconds(0.25)},
                              .weight_grad = {Seconds(1), Seconds(2)}};
  const core::PassTimes expected{Seconds(2), Seconds(3), Seconds(1.5), Seconds(0.25), 0.5};
  EXPECT_EQ(pass_times(stages, {memory(10, 4), memory(8, 4)}), expected);
  EXPECT_EQ(pass_times(stages, {memory(10, 11)}).kept, 1.0);
}

}  // namespace
}  // namespace orrery::costmodel
