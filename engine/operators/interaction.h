#pragma once
// The shallow part of a click-through model and its logistic loss.

#include <cstdint>

#include "core/operator.h"

namespace orrery::engine {

/// mlp_input[s, :] = [dense_s ; e_1 .. e_F]; shallow_s = bias + Σ_f wide_f + wide_dense·dense_s
/// (if wide) + ½ Σ_d ((Σ_f e_fd)² − Σ_f e_fd²) (for a factorization machine).
/// embedded: [samples, lookups, dim (+1 if wide)]. wide_dense is null without the wide part.
/// @throws SystemError for Interaction::Dot.
void interact(const core::Interact&, const float* embedded, const float* dense, const float* bias,
              const float* wide_dense, float* mlp_input, float* shallow);

/// de_fd = dmlp_input (+ dlogit·(Σ_g e_gd − e_fd) for a factorization machine), dwide_f = dlogit;
/// dbias += Σ_s dlogit_s, dwide_dense += Σ_s dlogit_s·dense_s (null without the wide part).
/// @throws SystemError for Interaction::Dot.
void interact_grad(const core::InteractGrad&, const float* dlogit, const float* dmlp_input,
                   const float* embedded, const float* dense, float* dembedded, float* dbias,
                   float* dwide_dense);

/// z = shallow + deep; dlogit = scale·(σ(z) − label). Returns
/// scale · Σ_s max(z, 0) − z·label + log(1 + e^−|z|), the binary cross-entropy of the logits.
float logistic_loss(const core::LogisticLoss&, const float* shallow, const float* deep,
                    const float* labels, float* dlogit);

}  // namespace orrery::engine
