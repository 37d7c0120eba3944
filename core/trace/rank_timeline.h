#pragma once
// One rank's step as a row of pieces: which kinds of work were in progress when.

#include <cstdint>
#include <optional>
#include <vector>

#include "core/trace.h"

namespace orrery::core {

struct Interval {
  Seconds begin;
  Seconds end;

  Seconds length() const { return end - begin; }
  bool operator==(const Interval&) const = default;
};

/// Work on the device (or of a server): neither communication nor loading data.
bool is_compute(SpanKind);

/// When a span keeps its rank busy: [transfer, end]. A communication that waits for its other
/// parties keeps nobody busy.
Interval active_interval(const Span&);

/// A set of span kinds.
class KindSet {
 public:
  void insert(SpanKind kind) { bits_ = static_cast<std::uint16_t>(bits_ | bit(kind)); }
  bool contains(SpanKind kind) const { return (bits_ & bit(kind)) != 0; }
  bool empty() const { return bits_ == 0; }
  bool computes() const;
  bool communicates() const;
  /// The kind a piece of time is counted as: compute first, then communication in the order of
  /// SpanKind, then loading.
  std::optional<SpanKind> leading() const;
  bool operator==(const KindSet&) const = default;

 private:
  static std::uint16_t bit(SpanKind kind) {
    return static_cast<std::uint16_t>(1u << static_cast<unsigned>(kind));
  }
  std::uint16_t bits_ = 0;
};

struct Piece {
  Interval when;
  KindSet active;
};

/// Number of steps: of Trace::steps, or of the spans when it lists none.
int step_count(const Trace&);

/// Steps of which there are spans, ascending: a run records some of its steps only.
std::vector<int> recorded_steps(const Trace&);

/// [start, end] of a step: what Trace::steps says, else from its first span's start to its last
/// span's end.
Interval step_interval(const Trace&, int step);

/// [first forward's start, last backward's end] over all ranks: where idle time is bubble. Empty
/// for a step without either.
std::optional<Interval> pipeline_window(const Trace&, int step);

/// Ranks with lanes of their own, ascending.
std::vector<Rank> recorded_ranks(const Trace&);

/// How many ranks a recorded rank stands for, itself included.
int ranks_represented(const Trace&, Rank);

/// Numbers of the spans of a rank's step, by (stream, program order).
std::vector<std::int32_t> spans_of(const Trace&, Rank, int step);

/// The rank's step, cut where any span of it starts or ends; pieces touch and fill `within`.
std::vector<Piece> pieces(const Trace&, Rank, int step, Interval within);

}  // namespace orrery::core
