#pragma once
// Rows on their way to their experts and back, and the experts' products: shapes and meaning in
// core/operator.h.

#include <cstdint>

#include "core/operator.h"

namespace orrery::engine {

void choose_experts(const core::ChooseExperts&, const float* logits, float* weights,
                    std::int32_t* places);
void choose_experts_grad(const core::ChooseExpertsGrad&, const float* dweights,
                         const float* weights, const std::int32_t* places, float* dlogits);
void dispatch(const core::Dispatch&, const float* x, const std::int32_t* places, float* slots);
void dispatch_grad(const core::DispatchGrad&, const float* dslots, const std::int32_t* places,
                   float* dx);
void combine(const core::Combine&, const float* slots, const float* weights,
             const std::int32_t* places, float* y);
void combine_grad(const core::CombineGrad&, const float* dy, const float* slots,
                  const float* weights, const std::int32_t* places, float* dslots, float* dweights);
void grouped_linear(const core::GroupedLinear&, const float* x, const float* w, float* y);
void grouped_linear_input_grad(const core::GroupedLinearInputGrad&, const float* dy, const float* w,
                               float* dx);
void grouped_linear_weight_grad(const core::GroupedLinearWeightGrad&, const float* dy,
                                const float* x, float* dw);

}  // namespace orrery::engine
