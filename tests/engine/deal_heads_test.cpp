#include "engine/operators/deal_heads.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/engine/operator_oracle.h"

namespace orrery::engine {
namespace {

// Two rows of 4 query heads, 2 key heads and 2 value heads of one number each, dealt to 2 ranks: the
// first gets query heads 0 and 1, key head 0 and value head 0 of both rows.
TEST(DealHeads, GivesEachRankItsHeadsOfEveryRow) {
  Values in(16), out(16), back(16);
  std::iota(in.begin(), in.end(), 0.0F);
  deal_heads({2, 4, 2, 1, 2, false}, in.data(), out.data());
  EXPECT_EQ(out, (Values{0, 1, 4, 6, 8, 9, 12, 14, 2, 3, 5, 7, 10, 11, 13, 15}));
  deal_heads({2, 4, 2, 1, 2, true}, out.data(), back.data());
  EXPECT_EQ(back, in);
}

// An attention output has no key and value heads.
TEST(DealHeads, DealsRowsOfOneKindOfHeads) {
  Values in(12), out(12), back(12);
  std::iota(in.begin(), in.end(), 0.0F);
  deal_heads({3, 2, 0, 2, 2, false}, in.data(), out.data());
  EXPECT_EQ(out, (Values{0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11}));
  deal_heads({3, 2, 0, 2, 2, true}, out.data(), back.data());
  EXPECT_EQ(back, in);
}

// Two sequences of 4 tokens of one number, each in two halves: [half][sequence][token].
TEST(JoinSequences, PutsTheHalvesOfEachSequenceTogether) {
  const Values halves = {0, 1, 10, 11, 2, 3, 12, 13};
  Values joined(8), cut(8);
  join_sequences({2, 4, 1, 2, false}, halves.data(), joined.data());
  EXPECT_EQ(joined, (Values{0, 1, 2, 3, 10, 11, 12, 13}));
  join_sequences({2, 4, 1, 2, true}, joined.data(), cut.data());
  EXPECT_EQ(cut, halves);
}

// Rank 1 of 2 with 4 tokens: tokens 4 to 7; zigzag the pieces 1 and 2 of four: tokens 2 to 5.
TEST(SequencePosition, CutsInOneOrTwoPieces) {
  for (std::int64_t t = 0; t < 4; ++t) {
    EXPECT_EQ(core::sequence_position({2, false}, 1, 4, t), 4 + t);
    EXPECT_EQ(core::sequence_position({2, true}, 1, 4, t), 2 + t);
  }
  // Rank 0: the outer pieces.
  EXPECT_EQ(core::sequence_position({2, true}, 0, 4, 1), 1);
  EXPECT_EQ(core::sequence_position({2, true}, 0, 4, 2), 6);
}

}  // namespace
}  // namespace orrery::engine
