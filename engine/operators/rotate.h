#pragma once
// Rotary position embedding.

#include "core/operator.h"

namespace orrery::engine {

/// Rotates the query and key heads of qkv [tokens, (heads + 2·kv_heads)·d] in place. Pairs are
/// (x_i, x_{i+d/2}); at position p the angle is p·θ^(−2i/d):
///   a' = a·cos − b·sin,  b' = b·cos + a·sin   (inverse: the angle's sign is turned).
void rotate(const core::Rotate&, float* qkv);

}  // namespace orrery::engine
