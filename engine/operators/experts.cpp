#include "engine/operators/experts.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/operators/matmul.h"

namespace orrery::engine {

namespace {

/// Which expert a choice is, whether it has a slot or was dropped.
std::int64_t expert_of(std::int32_t place, std::int64_t capacity) {
  return place >= 0 ? place / capacity : -1 - std::int64_t{place};
}

/// Visits (row, choice, place) of all that have a slot.
template <class Op, class Visit>
void for_each_place(const Op& op, const std::int32_t* places, const Visit& visit) {
  for (std::int64_t r = 0; r < op.rows; ++r) {
    for (std::int64_t j = 0; j < op.per_token; ++j) {
      const std::int64_t choice = r * op.per_token + j;
      if (places[choice] >= 0) visit(r, choice, std::int64_t{places[choice]});
    }
  }
}

/// The experts of the `count` largest logits, largest first; of equal ones the lower number first.
void choose(const float* logits, int experts, int count, std::int32_t* chosen) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(experts));
  for (int e = 0; e < experts; ++e) order[static_cast<std::size_t>(e)] = e;
  std::partial_sort(order.begin(), order.begin() + count, order.end(),
                    [&](std::int32_t a, std::int32_t b) {
                      return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
                    });
  std::copy_n(order.begin(), count, chosen);
}

}  // namespace

void choose_experts(const core::ChooseExperts& op, const float* logits, float* weights,
                    std::int32_t* places) {
  for (std::int64_t r = 0; r < op.rows; ++r) {
    const float* row = logits + r * op.experts;
    float* weight = weights + r * op.per_token;
    std::int32_t* chosen = places + r * op.per_token;
    choose(row, op.experts, op.per_token, chosen);
    float sum = 0.0F;
    for (int j = 0; j < op.per_token; ++j) {
      weight[j] = std::exp(row[chosen[j]] - row[chosen[0]]);
      sum += weight[j];
    }
    for (int j = 0; j < op.per_token; ++j) weight[j] /= sum;
  }
  std::vector<std::int64_t> filled(static_cast<std::size_t>(op.experts));
  for (int j = 0; j < op.per_token; ++j) {
    for (std::int64_t r = 0; r < op.rows; ++r) {
      std::int32_t& place = places[r * op.per_token + j];
      std::int64_t& slot = filled[static_cast<std::size_t>(place)];
      place =
          slot < op.capacity ? static_cast<std::int32_t>(place * op.capacity + slot++) : -1 - place;
    }
  }
}

void choose_experts_grad(const core::ChooseExpertsGrad& op, const float* dweights,
                         const float* weights, const std::int32_t* places, float* dlogits) {
  std::fill_n(dlogits, op.rows * op.experts, 0.0F);
  for (std::int64_t r = 0; r < op.rows; ++r) {
    const std::int64_t first = r * op.per_token;
    float mean = 0.0F;
    for (std::int64_t c = first; c < first + op.per_token; ++c) mean += weights[c] * dweights[c];
    for (std::int64_t c = first; c < first + op.per_token; ++c) {
      dlogits[r * op.experts + expert_of(places[c], op.capacity)] =
          weights[c] * (dweights[c] - mean);
    }
  }
}

void dispatch(const core::Dispatch& op, const float* x, const std::int32_t* places, float* slots) {
  std::fill_n(slots, op.experts * op.capacity * op.width, 0.0F);
  for_each_place(op, places, [&](std::int64_t row, std::int64_t, std::int64_t place) {
    std::copy_n(x + row * op.width, op.width, slots + place * op.width);
  });
}

void dispatch_grad(const core::DispatchGrad& op, const float* dslots, const std::int32_t* places,
                   float* dx) {
  std::fill_n(dx, op.rows * op.width, 0.0F);
  for_each_place(op, places, [&](std::int64_t row, std::int64_t, std::int64_t place) {
    const float* from = dslots + place * op.width;
    float* to = dx + row * op.width;
    for (std::int64_t i = 0; i < op.width; ++i) to[i] += from[i];
  });
}

void combine(const core::Combine& op, const float* slots, const float* weights,
             const std::int32_t* places, float* y) {
  std::fill_n(y, op.rows * op.width, 0.0F);
  for_each_place(op, places, [&](std::int64_t row, std::int64_t choice, std::int64_t place) {
    const float* from = slots + place * op.width;
    float* to = y + row * op.width;
    for (std::int64_t i = 0; i < op.width; ++i) to[i] += weights[choice] * from[i];
  });
}

void combine_grad(const core::CombineGrad& op, const float* dy, const float* slots,
                  const float* weights, const std::int32_t* places, float* dslots,
                  float* dweights) {
  std::fill_n(dslots, op.experts * op.capacity * op.width, 0.0F);
  std::fill_n(dweights, op.rows * op.per_token, 0.0F);
  for_each_place(op, places, [&](std::int64_t row, std::int64_t choice, std::int64_t place) {
    const float* from = dy + row * op.width;
    const float* slot = slots + place * op.width;
    float* to = dslots + place * op.width;
    float dot = 0.0F;
    for (std::int64_t i = 0; i < op.width; ++i) {
      to[i] = weights[choice] * from[i];
      dot += slot[i] * from[i];
    }
    dweights[choice] = dot;
  });
}

void grouped_linear(const core::GroupedLinear& op, const float* x, const float* w, float* y) {
  for (std::int64_t g = 0; g < op.groups; ++g) {
    matmul(op.rows, op.out, op.in, 1.0F, {x + g * op.rows * op.in, op.in},
           {w + g * op.out * op.in, op.in, true}, 0.0F, y + g * op.rows * op.out, op.out);
  }
}

void grouped_linear_input_grad(const core::GroupedLinearInputGrad& op, const float* dy,
                               const float* w, float* dx) {
  for (std::int64_t g = 0; g < op.groups; ++g) {
    matmul(op.rows, op.in, op.out, 1.0F, {dy + g * op.rows * op.out, op.out},
           {w + g * op.out * op.in, op.in}, 0.0F, dx + g * op.rows * op.in, op.in);
  }
}

void grouped_linear_weight_grad(const core::GroupedLinearWeightGrad& op, const float* dy,
                                const float* x, float* dw) {
  for (std::int64_t g = 0; g < op.groups; ++g) {
    matmul(op.out, op.in, op.rows, 1.0F, {dy + g * op.rows * op.out, op.out, true},
           {x + g * op.rows * op.in, op.in}, 1.0F, dw + g * op.out * op.in, op.in);
  }
}

}  // namespace orrery::engine
