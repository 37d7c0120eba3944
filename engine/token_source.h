#pragma once
// Where a transformer's samples come from.

#include <cstdint>

namespace orrery::engine {

/// Sequences by their place in the run, so that any number of ranks sees the same batches. Shared
/// by all rank threads: reading changes nothing.
class TokenSource {
 public:
  virtual ~TokenSource() = default;

  /// Sequences first .. first+sequences−1 of the global batch of step `step`, each with `sequence`
  /// tokens and as many targets (the token that follows; negative = ignored), row-major.
  virtual void read(int step, std::int64_t first, std::int64_t sequences, std::int64_t sequence,
                    std::int32_t* tokens, std::int32_t* targets) const = 0;
};

}  // namespace orrery::engine
