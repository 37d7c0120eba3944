// Against the oracle's float64 results and, at odd sizes, against a plain twin.

#include "engine/operators/embedding.h"

#include <gtest/gtest.h>

#include "tests/engine/operator_oracle.h"

namespace orrery::engine {
namespace {

TEST(Embed, AgreesWithTheOracle) {
  const Values w = given("embedding.in.w"), dy = given("embedding.dout");
  const std::vector<std::int32_t> tokens = given_ints("embedding.in.idx");
  Values x(51 * 48), dw(40 * 48, 0.0F);
  embed({51, 17, 48, 40, 1, false, false}, 0, tokens.data(), w.data(), nullptr, nullptr, x.data(),
        0);
  embed_grad({51, 17, 48, 40, 1, false, false}, 0, tokens.data(), dy.data(), dw.data(), nullptr,
             nullptr, 0);
  expect_near(x, given("embedding.out"), 0.0F);
  expect_near(dw, given("embedding.grad.w"));
}

// Two halves of the rows add up to the whole, forward and backward; positions repeat per sequence.
TEST(Embed, PartsOfTheVocabularyAddUp) {
  const Values w = random_values(10 * 4, 1), wpe = random_values(3 * 4, 2);
  const Values wtt = random_values(4, 3), dx = random_values(6 * 4, 4);
  const std::vector<std::int32_t> tokens = {0, 9, 4, 5, 9, 2};
  Values whole(24), first(24), second(24);
  embed({6, 3, 4, 10, 1, true, true}, 0, tokens.data(), w.data(), wpe.data(), wtt.data(),
        whole.data(), 0);
  embed({6, 3, 4, 5, 2, true, true}, 0, tokens.data(), w.data(), wpe.data(), wtt.data(),
        first.data(), 0);
  embed({6, 3, 4, 5, 2, true, true}, 5, tokens.data(), w.data() + 20, nullptr, nullptr,
        second.data(), 0);
  for (std::size_t i = 0; i < 24; ++i) {
    const std::size_t t = i / 4, j = i % 4;
    const float expected =
        w[static_cast<std::size_t>(tokens[t]) * 4 + j] + wpe[t % 3 * 4 + j] + wtt[j];
    ASSERT_NEAR(whole[i], expected, 1e-6F);
    ASSERT_NEAR(first[i] + second[i], expected, 1e-6F);
  }
  Values dw(40, 0.0F), dwpe(12, 0.0F), dwtt(4, 0.0F);
  embed_grad({6, 3, 4, 5, 2, true, true}, 0, tokens.data(), dx.data(), dw.data(), dwpe.data(),
             dwtt.data(), 0);
  embed_grad({6, 3, 4, 5, 2, false, false}, 5, tokens.data(), dx.data(), dw.data() + 20, nullptr,
             nullptr, 0);
  for (std::size_t j = 0; j < 4; ++j) {
    ASSERT_NEAR(dw[9 * 4 + j], dx[1 * 4 + j] + dx[4 * 4 + j], 1e-6F);
    ASSERT_NEAR(dwpe[j], dx[j] + dx[3 * 4 + j], 1e-6F);
    float sum = 0.0F;
    for (std::size_t t = 0; t < 6; ++t) sum += dx[t * 4 + j];
    ASSERT_NEAR(dwtt[j], sum, 1e-5F);
  }
}

}  // namespace
}  // namespace orrery::engine
