// Routing and experts against their formulas written plainly, and gradients against differences.

#include "engine/operators/experts.h"

#include <gtest/gtest.h>

#include <numeric>

#include "engine/operators/linear.h"
#include "tests/engine/operator_oracle.h"

namespace orrery::engine {
namespace {

using Ints = std::vector<std::int32_t>;

constexpr int kRows = 5, kExperts = 3, kChosen = 2, kWidth = 4;

double dot(const Values& a, const Values& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

struct Routed {
  Values weights;
  Ints places;
};

Routed routed(const Values& logits, std::int64_t capacity) {
  Routed result{Values(kRows * kChosen), Ints(kRows * kChosen)};
  choose_experts({kRows, kExperts, kChosen, capacity}, logits.data(), result.weights.data(),
                 result.places.data());
  return result;
}

// Rows in turn, first choices before second ones: e·capacity + slot, −1 − e without room.
TEST(Experts, AreChosenByTheLargestLogitsWhileTheyHaveRoom) {
  const Values logits = {3, 2, 1, 3, 2, 1, 1, 2, 3, 3, 1, 2, 0, 0, 0};
  const Routed r = routed(logits, 2);
  // First choices: 0 0 2 0 0; second: 1 1 1 2 1 (of equal logits the lower number first).
  EXPECT_EQ(r.places, (Ints{0, 2, 1, 3, 4, -2, -1, 5, -1, -2}));
  const float first = 1.0F / (1.0F + std::exp(-1.0F));
  expect_near(r.weights,
              {first, 1 - first, first, 1 - first, first, 1 - first, first, 1 - first, 0.5F, 0.5F});
}

TEST(Experts, GradientOfTheChoiceIsTheSoftmaxOfTheChosen) {
  const Values logits = random_values(kRows * kExperts, 3, 2.0F);
  const Values dweights = random_values(kRows * kChosen, 4);
  for (const int capacity : {2, kRows}) {
    const Routed r = routed(logits, capacity);
    Values dlogits(kRows * kExperts, 7.0F);
    choose_experts_grad({kRows, kExperts, kChosen, capacity}, dweights.data(), r.weights.data(),
                        r.places.data(), dlogits.data());
    expect_gradient([&](const Values& x) { return dot(routed(x, capacity).weights, dweights); },
                    logits, dlogits, 1e-3);
  }
}

// The whole way of a row: y = Σ weight · slot of its copy; dropped choices add nothing.
TEST(Experts, RowsReturnWeighted) {
  const Values x = random_values(kRows * kWidth, 5);
  for (const int capacity : {1, 2, kRows}) {
    const Routed r = routed(random_values(kRows * kExperts, 6), capacity);
    Values slots(static_cast<std::size_t>(kExperts * capacity * kWidth), 9.0F);
    Values y(kRows * kWidth, 9.0F);
    dispatch({kRows, kWidth, kExperts, kChosen, capacity}, x.data(), r.places.data(), slots.data());
    combine({kRows, kWidth, kExperts, kChosen, capacity}, slots.data(), r.weights.data(),
            r.places.data(), y.data());
    Values expected(kRows * kWidth, 0.0F);
    for (std::size_t i = 0; i < r.places.size(); ++i) {
      if (r.places[i] < 0) continue;
      for (std::size_t c = 0; c < kWidth; ++c) {
        const std::size_t at = i / kChosen * kWidth + c;
        expected[at] += r.weights[i] * x[at];
      }
    }
    expect_near(y, expected);
  }
}

TEST(Experts, GradientsOfTheWayOfRows) {
  constexpr int kCapacity = 3;
  const Values x = random_values(kRows * kWidth, 7), dy = random_values(kRows * kWidth, 8);
  const Routed r = routed(random_values(kRows * kExperts, 9), kCapacity);
  constexpr std::size_t kSlots = kExperts * kCapacity * kWidth;
  const Values slots = random_values(kSlots, 10), dslots = random_values(kSlots, 11);
  Values dx(kRows * kWidth, 9.0F), dweights(kRows * kChosen, 9.0F), made(kSlots, 9.0F);
  dispatch_grad({kRows, kWidth, kExperts, kChosen, kCapacity}, dslots.data(), r.places.data(),
                dx.data());
  expect_gradient(
      [&](const Values& rows) {
        Values to(kSlots);
        dispatch({kRows, kWidth, kExperts, kChosen, kCapacity}, rows.data(), r.places.data(),
                 to.data());
        return dot(to, dslots);
      },
      x, dx, 1e-3);
  combine_grad({kRows, kWidth, kExperts, kChosen, kCapacity}, dy.data(), slots.data(),
               r.weights.data(), r.places.data(), made.data(), dweights.data());
  const auto loss = [&](const Values& from, const Values& weights) {
    Values y(kRows * kWidth);
    combine({kRows, kWidth, kExperts, kChosen, kCapacity}, from.data(), weights.data(),
            r.places.data(), y.data());
    return dot(y, dy);
  };
  expect_gradient([&](const Values& from) { return loss(from, r.weights); }, slots, made, 1e-3);
  expect_gradient([&](const Values& weights) { return loss(slots, weights); }, r.weights, dweights,
                  1e-3);
}

// Each group is a Linear of its own.
TEST(Experts, ProductsAreThoseOfTheirGroups) {
  constexpr int kGroups = 3, kOut = 5, kIn = 7;
  constexpr std::size_t kX = kRows * kIn, kY = kRows * kOut, kW = kOut * kIn;
  const Values x = random_values(kGroups * kX, 12), w = random_values(kGroups * kW, 13);
  const Values dy = random_values(kGroups * kY, 14);
  Values y(kGroups * kY, 9.0F), dx(kGroups * kX, 9.0F), dw(kGroups * kW, 0.5F);
  Values y1 = y, dx1 = dx, dw1 = dw;
  grouped_linear({kGroups, kRows, kOut, kIn}, x.data(), w.data(), y.data());
  grouped_linear_input_grad({kGroups, kRows, kOut, kIn}, dy.data(), w.data(), dx.data());
  grouped_linear_weight_grad({kGroups, kRows, kOut, kIn}, dy.data(), x.data(), dw.data());
  for (std::size_t g = 0; g < kGroups; ++g) {
    linear({kRows, kOut, kIn, false}, x.data() + g * kX, w.data() + g * kW, nullptr,
           y1.data() + g * kY);
    linear_input_grad({kRows, kOut, kIn, false}, dy.data() + g * kY, w.data() + g * kW,
                      dx1.data() + g * kX);
    linear_weight_grad({kRows, kOut, kIn, false}, dy.data() + g * kY, x.data() + g * kX,
                       dw1.data() + g * kW, nullptr);
  }
  expect_near(y, y1);
  expect_near(dx, dx1);
  expect_near(dw, dw1);
}

}  // namespace
}  // namespace orrery::engine
