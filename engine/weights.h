#pragma once
// Parameters at the start and at the end of a run: the same whatever the layout.

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/program.h"
#include "engine/safetensors.h"

namespace orrery::engine {

/// This rank's part of every tensor, drawn from Normal(initial_value, initial_stddev): element i of
/// the whole tensor depends on (seed, name, i) only. Padding is 0.
void draw_weights(const core::Parameters&, int tensor_position, std::uint64_t seed, float* values);

/// This rank's slices (Parameters::sharded) of all of its stage's parameters, or back.
void cut_slices(const core::Parameters&, int sharding_ways, int sharding_position,
                const float* whole, float* slices);
void put_slices(const core::Parameters&, int sharding_ways, int sharding_position,
                const float* slices, float* whole);

/// @throws ConfigError naming file and tensor when one is missing, of another shape or of a type
/// that weights do not have.
void check_weights(const core::Parameters&, const SafetensorsFile&);

/// This rank's part of every tensor, from a file with Hugging Face's names (GPT-2's with or without
/// the leading "transformer."). F32, BF16 and F16 tensors are read.
/// @throws ConfigError as check_weights().
void load_weights(const core::Parameters&, int tensor_position, const SafetensorsFile&,
                  float* values);

/// The whole tensors of a program, as a weights file keeps them, put together from the ranks'
/// parts.
class WeightAssembly {
 public:
  explicit WeightAssembly(const core::Program&);

  /// Whether this rank's part is needed: its like on other data ways hold the same, unless they
  /// hold other slices.
  static bool needs(const core::Program&, core::Rank);
  /// A rank's part: all of its stage's parameters, or its slices of them (Parameters::sharded).
  void add(const core::Program&, core::Rank, const float* values);
  /// A server's rows (core::EmbeddingShard).
  void add_shard(const core::Embedding&, int server, std::span<const float> rows);
  std::vector<NamedTensor> take() { return std::move(tensors_); }

 private:
  /// A stage's parameters of which not all slices have come.
  struct Pending {
    std::vector<float> values;
    std::vector<bool> has;  // By sharding position.
  };

  NamedTensor& named(std::string_view name);
  void add_whole(const core::Parameters&, int tensor_position, const float* values);
  void add_slices(const core::Program&, core::Rank, const float* values);

  std::vector<NamedTensor> tensors_;                         // Sorted by name.
  std::map<std::pair<core::RoleId, int>, Pending> pending_;  // By role and tensor position.
};

}  // namespace orrery::engine
