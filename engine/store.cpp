#include "engine/store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/error.h"
#include "engine/normal_numbers.h"

namespace orrery::engine {

Store::Store(const core::Embedding& embedding, int server, std::span<float> rows,
             std::span<float> state)
    : embedding_(&embedding), server_(server), rows_(rows), state_(state) {
  const auto needed = static_cast<std::size_t>(local_rows(embedding, server) * embedding.width());
  ORRERY_CHECK(rows.size() >= needed && (state.empty() || state.size() >= needed),
               "a shard must hold its server's rows");
}

std::int64_t Store::local_rows(const core::Embedding& embedding, int server) {
  return (embedding.rows - server + embedding.servers - 1) / embedding.servers;
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
  const NormalNumbers normal(seed, kEmbeddingName);
  std::fill(rows_.begin(), rows_.end(), 0.0F);
  for (const core::EmbeddingField& field : embedding_->fields) {
    const std::int64_t servers = embedding_->servers;
    // The first row of the field that this server keeps.
    std::int64_t row =
        field.first_row + ((server_ - field.first_row) % servers + servers) % servers;
    for (; row < field.first_row + field.rows; row += servers) {
      float* to = rows_.data() + row / servers * width;
      for (int d = 0; d < dim; ++d) {
        to[d] = static_cast<float>(field.initial_stddev * normal(row * dim + d));
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
  for (std::int64_t local = 0; local < local_rows(*embedding_, server_); ++local) {
    const auto row = static_cast<std::size_t>(local * embedding_->servers + server_);
    float* to = rows_.data() + static_cast<std::size_t>(local) * width;
    std::copy_n(embedding.data() + row * dim, dim, to);
    if (embedding_->wide) to[dim] = wide[row];
  }
  fill_state(optimizer);
}

namespace {

/// The whole tensor [rows, columns] of the embedding in a weights file.
std::span<const float> tensor_of(const core::Embedding& embedding, const SafetensorsFile& file,
                                 const char* name, std::int64_t columns) {
  const std::vector<std::int64_t> needed = {embedding.rows, columns};
  const std::span<const float> values = file.floats(name);
  if (file.shape(name) == needed) return values;
  throw core::ConfigError(fmt::format("{}: \"{}\" has shape [{}], the model needs [{}]",
                                      file.path().string(), name, fmt::join(file.shape(name), ", "),
                                      fmt::join(needed, ", ")));
}

}  // namespace

void Store::check(const core::Embedding& embedding, const SafetensorsFile& file) {
  tensor_of(embedding, file, kEmbeddingName, embedding.dim);
  if (embedding.wide) tensor_of(embedding, file, kWideName, 1);
}

void Store::initialize(const SafetensorsFile& file, const core::Optimizer& optimizer) {
  const auto embedding = tensor_of(*embedding_, file, kEmbeddingName, embedding_->dim);
  const auto wide =
      embedding_->wide ? tensor_of(*embedding_, file, kWideName, 1) : std::span<const float>();
  initialize(embedding, wide, optimizer);
}

void Store::copy(const core::Embedding& embedding, int server, std::span<const float> rows,
                 std::span<float> whole, std::span<float> wide) {
  const auto dim = static_cast<std::size_t>(embedding.dim);
  const auto width = static_cast<std::size_t>(embedding.width());
  for (std::int64_t local = 0; local < local_rows(embedding, server); ++local) {
    const auto row = static_cast<std::size_t>(local * embedding.servers + server);
    const float* values = rows.data() + static_cast<std::size_t>(local) * width;
    std::copy_n(values, dim, whole.data() + row * dim);
    if (embedding.wide) wide[row] = values[dim];
  }
}

}  // namespace orrery::engine
