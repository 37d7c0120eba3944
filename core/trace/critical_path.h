#pragma once
// The chain of spans that a step's length hangs on: each started the moment its predecessor ended,
// or the moment the last party of its communication arrived.

#include <array>
#include <cstdint>
#include <vector>

#include "core/trace.h"
#include "core/trace/rank_timeline.h"

namespace orrery::core {

/// A part of the path: `span` during `when`. A communication's wait is not on the path: there the
/// path runs through the party that was waited for.
struct PathPiece {
  std::int32_t span = 0;
  Interval when;
};

struct CriticalPath {
  std::vector<PathPiece> pieces;            ///< In time order, not overlapping.
  std::array<Seconds, kSpanKinds> by_kind;  ///< Of the pieces.
  Seconds unexplained;                      ///< Between pieces: nothing that was waited for ran.
};

/// Walks back from the step's last span to end. Σ by_kind + unexplained = from the first piece's
/// begin to the last one's end.
CriticalPath critical_path(const Trace&, int step);

}  // namespace orrery::core
