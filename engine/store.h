#pragma once
// A server's embedding rows and their optimizer state, kept in memory.

#include <cstdint>
#include <span>

#include "core/job.h"
#include "core/program.h"
#include "engine/safetensors.h"

namespace orrery::engine {

/// Names of the embedding's two parts in weights files: [rows, dim] and [rows, 1].
inline constexpr const char* kEmbeddingName = "emb.weight";
inline constexpr const char* kWideName = "wide.weight";

/// The rows ≡ server mod servers of a program's embedding, in the Run buffers that the Program
/// gives them (core::EmbeddingShard). Keys are rows of the whole embedding.
class Store {
 public:
  /// @param state  Empty for an optimizer without state.
  Store(const core::Embedding&, int server, std::span<float> rows, std::span<float> state);

  /// out[i, :] = row of keys[i].
  /// @throws SystemError for a key that this server does not keep.
  void read(std::span<const std::int32_t> keys, float* out) const;

  /// One step of the sparse optimizer for each key: AdaGrad state += g², row −= lr·g/(√state + ε);
  /// Sgd row −= lr·g.
  void update(std::span<const std::int32_t> keys, const float* gradients, const core::Optimizer&);

  /// Rows from Normal(0, σ of the field), wide weights 0, state from the optimizer. A row depends
  /// on (seed, row) only, not on how many servers there are.
  void initialize(std::uint64_t seed, const core::Optimizer&);
  /// Rows from the whole tensors [rows, dim] and [rows, 1] (empty without the wide part), state
  /// from the optimizer.
  void initialize(std::span<const float> embedding, std::span<const float> wide,
                  const core::Optimizer&);
  /// @throws ConfigError naming file and tensor when one is missing or of another shape.
  static void check(const core::Embedding&, const SafetensorsFile&);
  /// Rows from a weights file, state from the optimizer.
  /// @throws ConfigError as check().
  void initialize(const SafetensorsFile&, const core::Optimizer&);

  /// Writes a server's rows (or their state) at their places in whole tensors.
  static void copy(const core::Embedding&, int server, std::span<const float> rows,
                   std::span<float> embedding, std::span<float> wide);

  /// Rows that a server keeps.
  static std::int64_t local_rows(const core::Embedding&, int server);

 private:
  std::size_t offset(std::int32_t key) const;
  void fill_state(const core::Optimizer&);

  const core::Embedding* embedding_;
  int server_ = 0;
  std::span<float> rows_;
  std::span<float> state_;
};

}  // namespace orrery::engine
