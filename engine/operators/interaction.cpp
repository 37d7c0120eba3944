#include "engine/operators/interaction.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.h"

namespace orrery::engine {

namespace {

/// Shapes common to both directions.
struct Sample {
  std::int64_t dense, lookups, dim, width;

  std::int64_t embedded() const { return lookups * width; }
  std::int64_t mlp_input() const { return dense + lookups * dim; }
};

template <class Op>
Sample sample_of(const Op& op) {
  if (op.kind == core::Interaction::Dot) {
    throw core::SystemError("the dot interaction is not part of this build");
  }
  return {op.dense_features, op.lookups, op.dim, op.dim + (op.wide ? 1 : 0)};
}

/// sum_d = Σ_f e_fd.
void sum_rows(const Sample& shape, const float* embedded, std::vector<float>& sum) {
  std::fill(sum.begin(), sum.end(), 0.0F);
  for (std::int64_t f = 0; f < shape.lookups; ++f) {
    const float* row = embedded + f * shape.width;
    for (std::int64_t d = 0; d < shape.dim; ++d) sum[static_cast<std::size_t>(d)] += row[d];
  }
}

/// ½ Σ_d ((Σ_f e_fd)² − Σ_f e_fd²).
double factorization_machine(const Sample& shape, const float* embedded, std::vector<float>& sum) {
  sum_rows(shape, embedded, sum);
  double squares = 0.0;
  for (std::int64_t f = 0; f < shape.lookups; ++f) {
    const float* row = embedded + f * shape.width;
    for (std::int64_t d = 0; d < shape.dim; ++d) squares += static_cast<double>(row[d]) * row[d];
  }
  double square_of_sum = 0.0;
  for (const float s : sum) square_of_sum += static_cast<double>(s) * s;
  return 0.5 * (square_of_sum - squares);
}

/// Σ_f wide_f + wide_dense·dense.
double wide_part(const Sample& shape, const float* embedded, const float* dense,
                 const float* wide_dense) {
  double sum = 0.0;
  for (std::int64_t f = 0; f < shape.lookups; ++f) sum += embedded[f * shape.width + shape.dim];
  for (std::int64_t k = 0; k < shape.dense; ++k) {
    sum += static_cast<double>(wide_dense[k]) * dense[k];
  }
  return sum;
}

}  // namespace

void interact(const core::Interact& op, const float* embedded, const float* dense,
              const float* bias, const float* wide_dense, float* mlp_input, float* shallow) {
  const Sample shape = sample_of(op);
  std::vector<float> sum(static_cast<std::size_t>(shape.dim));
  for (std::int64_t s = 0; s < op.samples; ++s) {
    const float* e = embedded + s * shape.embedded();
    const float* x = dense + s * shape.dense;
    float* input = mlp_input + s * shape.mlp_input();
    std::copy_n(x, shape.dense, input);
    for (std::int64_t f = 0; f < shape.lookups; ++f) {
      std::copy_n(e + f * shape.width, shape.dim, input + shape.dense + f * shape.dim);
    }
    double logit = *bias;
    if (op.wide) logit += wide_part(shape, e, x, wide_dense);
    if (op.kind == core::Interaction::FactorizationMachine) {
      logit += factorization_machine(shape, e, sum);
    }
    shallow[s] = static_cast<float>(logit);
  }
}

void interact_grad(const core::InteractGrad& op, const float* dlogit, const float* dmlp_input,
                   const float* embedded, const float* dense, float* dembedded, float* dbias,
                   float* dwide_dense) {
  const Sample shape = sample_of(op);
  const bool machine = op.kind == core::Interaction::FactorizationMachine;
  std::vector<float> sum(static_cast<std::size_t>(shape.dim));
  std::vector<double> wide_sum(static_cast<std::size_t>(shape.dense));
  double bias_sum = 0.0;
  for (std::int64_t s = 0; s < op.samples; ++s) {
    const float* e = embedded + s * shape.embedded();
    const float* dinput = dmlp_input + s * shape.mlp_input() + shape.dense;
    float* de = dembedded + s * shape.embedded();
    if (machine) sum_rows(shape, e, sum);
    for (std::int64_t f = 0; f < shape.lookups; ++f) {
      const float* row = e + f * shape.width;
      float* drow = de + f * shape.width;
      std::copy_n(dinput + f * shape.dim, shape.dim, drow);
      if (machine) {
        for (std::int64_t d = 0; d < shape.dim; ++d) {
          drow[d] += dlogit[s] * (sum[static_cast<std::size_t>(d)] - row[d]);
        }
      }
      if (op.wide) drow[shape.dim] = dlogit[s];
    }
    bias_sum += dlogit[s];
    for (std::int64_t k = 0; k < shape.dense; ++k) {
      wide_sum[static_cast<std::size_t>(k)] +=
          static_cast<double>(dlogit[s]) * dense[s * shape.dense + k];
    }
  }
  *dbias += static_cast<float>(bias_sum);
  if (!op.wide) return;
  for (std::int64_t k = 0; k < shape.dense; ++k) {
    dwide_dense[k] += static_cast<float>(wide_sum[static_cast<std::size_t>(k)]);
  }
}

float logistic_loss(const core::LogisticLoss& op, const float* shallow, const float* deep,
                    const float* labels, float* dlogit) {
  double sum = 0.0;
  for (std::int64_t s = 0; s < op.samples; ++s) {
    const double z = static_cast<double>(shallow[s] + deep[s]);
    sum += std::max(z, 0.0) - z * labels[s] + std::log1p(std::exp(-std::abs(z)));
    dlogit[s] = static_cast<float>(op.scale * (1.0 / (1.0 + std::exp(-z)) - labels[s]));
  }
  return static_cast<float>(op.scale * sum);
}

}  // namespace orrery::engine
