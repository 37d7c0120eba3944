#pragma once
// What made a span wait: its dependencies, the span before it on its lane, and for communication
// the other parties. Built once per trace, asked many times.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/trace.h"

namespace orrery::core {

/// Index of a span within Trace::spans.
using SpanNumber = std::int32_t;

class TraceLinks {
 public:
  explicit TraceLinks(const Trace&);

  /// Spans of the same rank that it waited for, across streams.
  std::span<const SpanNumber> dependencies(SpanNumber) const;

  /// The span before it on its lane.
  std::optional<SpanNumber> lane_predecessor(SpanNumber) const;

  /// The last to end of its dependencies and its lane's predecessor: what it started after.
  std::optional<SpanNumber> last_predecessor(SpanNumber) const;

  /// The other spans of its communication: the other members of its collective, the other end of
  /// its message, the servers of its pull or push. Empty for compute.
  std::vector<SpanNumber> parties(SpanNumber) const;

  /// Of its parties the last to start, when that was later than its own start: whom it waited for.
  std::optional<SpanNumber> last_party(SpanNumber) const;

 private:
  const Span& at(SpanNumber i) const { return trace_.spans[static_cast<std::size_t>(i)]; }

  const Trace& trace_;
  std::vector<std::int32_t> collective_of_;  // By span; the number of collectives: none.
  std::vector<std::int64_t> flow_begin_;     // Compressed rows: by span,
  std::vector<SpanNumber> flow_other_;       // the other ends of its flows.
};

}  // namespace orrery::core
