#pragma once
// Parameters at the start and at the end of a run: the same whatever the layout.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/program.h"
#include "engine/safetensors.h"

namespace orrery::engine {

/// Which part of a program's tensors a rank has.
struct TensorPlace {
  int part = 0;          ///< Of those split over a tensor group: its position there.
  int first_expert = 0;  ///< The model's number of its first expert in each layer.
};
TensorPlace tensor_place(const core::Program&, core::Rank);

/// This rank's part of every tensor, drawn from Normal(initial_value, initial_stddev): element i of
/// the whole tensor depends on (seed, name, i) only. Padding is 0.
void draw_weights(const core::Parameters&, TensorPlace, std::uint64_t seed, float* values);

/// Which of its stage's parameters lie in a rank's buffer of values, in that order: all, or its slices
/// (Parameters::sharded).
std::vector<core::ParameterRange> held_parameters(const core::Program&, core::Rank);
void cut_slices(const std::vector<core::ParameterRange>& held, const float* whole, float* slices);

/// @throws ConfigError naming file and tensor when one is missing, of another shape or of a type
/// that weights do not have.
void check_weights(const core::Program&, const SafetensorsFile&);

/// This rank's part of every tensor, from a file with Hugging Face's names (GPT-2's with or without
/// the leading "transformer."). F32, BF16 and F16 tensors are read.
/// @throws ConfigError as check_weights().
void load_weights(const core::Parameters&, TensorPlace, const SafetensorsFile&, float* values);

/// The whole tensors of a program, as a weights file keeps them, put together from the ranks'
/// parts.
class WeightAssembly {
 public:
  explicit WeightAssembly(const core::Program&);

  /// Whether this rank's part is needed: its like on other data ways hold the same, unless they
  /// hold other slices or experts.
  static bool needs(const core::Program&, core::Rank);
  /// A rank's part: all of its stage's parameters, or its slices of them (Parameters::sharded).
  void add(const core::Program&, core::Rank, const float* values);
  /// A server's rows (core::EmbeddingShard).
  void add_shard(const core::Embedding&, int server, std::span<const float> rows);
  std::vector<NamedTensor> take() { return std::move(tensors_); }

 private:
  NamedTensor& named(std::string_view name);
  void add_range(const core::Parameters&, TensorPlace, const core::ParameterRange&,
                 const float* values);

  std::vector<NamedTensor> tensors_;  // Sorted by name.
};

}  // namespace orrery::engine
