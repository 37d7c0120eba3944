#pragma once
// Rotary position embedding. Source: Su et al., RoFormer, arXiv 2104.09864, with half-split pairs
// as Llama's published weights have them.

#include <cstdint>
#include <vector>

#include "core/operator.h"

namespace orrery::engine {

/// cos and sin of the angle p·θ^(−2i/d) for the position p of every token that the rank at
/// `context_position` holds of a sequence, and pair i < d/2.
struct RotationTable {
  core::Rotate of;
  std::vector<float> cosines, sines;  ///< [sequence, head_dim/2]
};
RotationTable rotation_table(const core::Rotate&, int context_position);

/// Rotates the query and key heads of qkv [tokens, (heads + 2·kv_heads)·d] in place. Pairs are
/// (x_i, x_{i+d/2}), with the position's angle:
///   a' = a·cos − b·sin,  b' = b·cos + a·sin   (inverse: the angle's sign is turned).
void rotate(const core::Rotate&, const RotationTable&, float* qkv);

}  // namespace orrery::engine
