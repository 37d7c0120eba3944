#pragma once
// Who touches which bytes in which order, and what a stream's position implies about the others:
// what dependencies are derived from (core/lowering/dependencies.h) and proven with
// (core/check/program_check.h).

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "core/program.h"

namespace orrery::core {

/// One access of an instruction to `count` elements of a buffer instance from `first`. A View's
/// slice counts as its whole range.
struct Access {
  std::int64_t first = 0;
  std::int64_t count = 0;
  int position = 0;  ///< Of the instruction in the role's program order, from 1.
  Stream stream = Stream::Compute;
  bool write = false;  ///< Freeing counts as writing.
};

/// One of the two writes and the ranges overlap.
bool conflict(const Access&, const Access&);

struct BufferAccess {
  BufferId buffer;
  Access access;
};
std::vector<BufferAccess> accesses_of(const Role&, const Instruction&, int position);

/// Instance of a buffer: its id, and the microbatch or call that owns it (0 for scope Run).
using Instance = std::pair<BufferId, int>;
Instance instance_of(const Role&, BufferId, const Call&, int call_index);

/// Per stream, the latest position known to have ended; 0 is before all.
using Clock = std::array<int, kStreams>;
void join(Clock& into, const Clock& other);

/// The ranges of one buffer instance that one stream has touched, each with its latest position.
/// Sorted by size class, then by start: those that overlap a range are found without visiting the
/// others, of which a buffer of thousands of tensors has many.
class TouchedRanges {
 public:
  void record(const Access&);
  /// Latest position of an access that conflicts with this one; 0 where there is none.
  int latest_conflict(const Access&) const;

 private:
  /// Size class w holds counts of 2^(w−1) to 2^w − 1.
  struct Range {
    int size_class = 0;
    std::int64_t first = 0;
    std::int64_t count = 0;
    bool write = false;
    auto operator<=>(const Range&) const = default;
  };
  std::map<Range, int> position_;
};

/// The accesses visited so far.
class Hazards {
 public:
  /// Latest conflicting position per other stream that `clock` does not already imply.
  std::vector<int> conflicts(Instance, const Access& mine, const Clock& clock) const;
  void record(Instance, const Access&);
  void forget(Instance instance) { accesses_.erase(instance); }

 private:
  /// Of one stream: most instances are touched by one or two.
  struct OfStream {
    Stream stream;
    TouchedRanges ranges;
  };
  std::map<Instance, std::vector<OfStream>> accesses_;
};

/// Clocks of the instructions visited so far, in program order.
class Clocks {
 public:
  /// What is known to have ended before the next instruction of `stream` starts, by stream order.
  Clock before(Stream) const;
  /// What is known to have ended once the instruction at `position` has.
  const Clock& after(int position) const { return after_[static_cast<std::size_t>(position - 1)]; }
  int next_position() const { return static_cast<int>(after_.size()) + 1; }
  /// Visits the next instruction, which starts at `clock`.
  void visit(Stream, Clock clock);

 private:
  std::vector<Clock> after_;
  Clock last_{};
};

}  // namespace orrery::core
