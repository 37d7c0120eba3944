#include "engine/store.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "core/error.h"

namespace orrery::engine {

namespace {

/// A well-mixed integer from a counter. Source: Steele, Lea, Flood, Fast Splittable Pseudorandom
/// Number Generators, OOPSLA 2014 (SplitMix64).
std::uint64_t mix(std::uint64_t counter) {
  std::uint64_t z = counter + 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

/// Uniform in (0, 1): 53 bits, the middle of each interval.
double uniform(std::uint64_t counter) {
  return (static_cast<double>(mix(counter) >> 11) + 0.5) * 0x1.0p-53;
}

/// Standard normal, by Box and Muller.
double normal(std::uint64_t stream, std::uint64_t index) {
  const std::uint64_t counter = mix(stream) + 2 * index;
  return std::sqrt(-2.0 * std::log(uniform(counter))) *
         std::cos(2.0 * std::numbers::pi * uniform(counter + 1));
}

}  // namespace

Store::Store(const core::Embedding& embedding, int server, std::span<float> rows,
             std::span<float> state)
    : embedding_(&embedding), server_(server), rows_(rows), state_(state) {
  local_rows_ = (embedding.rows - server + embedding.servers - 1) / embedding.servers;
  const auto needed = static_cast<std::size_t>(local_rows_ * embedding.width());
  ORRERY_CHECK(rows.size() >= needed && (state.empty() || state.size() >= needed),
               "a shard must hold its server's rows");
}

std::int64_t Store::global_row(std::int64_t local) const {
  return local * embedding_->servers + server_;
}

std::size_t Store::offset(std::int32_t key) const {
  if (key < 0 || key >= embedding_->rows || key % embedding_->servers != server_) {
    throw core::SystemError("server " + std::to_string(server_) + " was asked for row " +
                            std::to_string(key) + ", which it does not keep");
  }
  return static_cast<std::size_t>(key / embedding_->servers) *
         static_cast<std::size_t>(embedding_->width());
}

void Store::read(std::span<const std::int32_t> keys, float* out) const {
  const auto width = static_cast<std::size_t>(embedding_->width());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    std::copy_n(rows_.data() + offset(keys[i]), width, out + i * width);
  }
}

void Store::update(std::span<const std::int32_t> keys, const float* gradients,
                   const core::Optimizer& optimizer) {
  const auto width = static_cast<std::size_t>(embedding_->width());
  const auto rate = static_cast<float>(optimizer.learning_rate);
  const auto epsilon = static_cast<float>(optimizer.epsilon);
  const bool adaptive = optimizer.kind == core::OptimizerKind::AdaGrad;
  ORRERY_CHECK(!adaptive || !state_.empty(), "AdaGrad must have its state");
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::size_t at = offset(keys[i]);
    for (std::size_t j = 0; j < width; ++j) {
      const float gradient = gradients[i * width + j];
      if (!adaptive) {
        rows_[at + j] -= rate * gradient;
        continue;
      }
      float& sum = state_[at + j];
      sum += gradient * gradient;
      rows_[at + j] -= rate * (gradient / (std::sqrt(sum) + epsilon));
    }
  }
}

void Store::fill_state(const core::Optimizer& optimizer) {
  std::fill(state_.begin(), state_.end(), static_cast<float>(optimizer.initial_accumulator));
}

void Store::initialize(std::uint64_t seed, const core::Optimizer& optimizer) {
  const int dim = embedding_->dim;
  const int width = embedding_->width();
  std::fill(rows_.begin(), rows_.end(), 0.0F);
  for (const core::EmbeddingField& field : embedding_->fields) {
    const std::int64_t servers = embedding_->servers;
    // The first row of the field that this server keeps.
    std::int64_t row =
        field.first_row + ((server_ - field.first_row) % servers + servers) % servers;
    for (; row < field.first_row + field.rows; row += servers) {
      float* to = rows_.data() + row / servers * width;
      for (int d = 0; d < dim; ++d) {
        const auto index = static_cast<std::uint64_t>(row * dim + d);
        to[d] = static_cast<float>(field.initial_stddev * normal(seed, index));
      }
    }
  }
  fill_state(optimizer);
}

void Store::initialize(std::span<const float> embedding, std::span<const float> wide,
                       const core::Optimizer& optimizer) {
  const auto dim = static_cast<std::size_t>(embedding_->dim);
  const auto width = static_cast<std::size_t>(embedding_->width());
  const auto rows = static_cast<std::size_t>(embedding_->rows);
  ORRERY_CHECK(embedding.size() == rows * dim && wide.size() == (embedding_->wide ? rows : 0),
               "initial rows must have the embedding's shape");
  for (std::int64_t local = 0; local < local_rows_; ++local) {
    const auto row = static_cast<std::size_t>(global_row(local));
    float* to = rows_.data() + static_cast<std::size_t>(local) * width;
    std::copy_n(embedding.data() + row * dim, dim, to);
    if (embedding_->wide) to[dim] = wide[row];
  }
  fill_state(optimizer);
}

void Store::copy(std::span<const float> from, std::span<float> embedding,
                 std::span<float> wide) const {
  const auto dim = static_cast<std::size_t>(embedding_->dim);
  const auto width = static_cast<std::size_t>(embedding_->width());
  for (std::int64_t local = 0; local < local_rows_; ++local) {
    const auto row = static_cast<std::size_t>(global_row(local));
    const float* values = from.data() + static_cast<std::size_t>(local) * width;
    std::copy_n(values, dim, embedding.data() + row * dim);
    if (embedding_->wide) wide[row] = values[dim];
  }
}

void Store::copy_rows(std::span<float> embedding, std::span<float> wide) const {
  copy(rows_, embedding, wide);
}

void Store::copy_state(std::span<float> embedding, std::span<float> wide) const {
  copy(state_, embedding, wide);
}

}  // namespace orrery::engine
