#pragma once
// Collectives as resumable state machines over point-to-point messages: the algorithms of
// core::CollectiveLibrary::AllPairs, chosen by core/network/collective_choice.h.
//
// Sums are taken in the order of the group's members, whatever arrives first and however the buffer
// is cut, so every transport and every schedule gives the same bits:
//
//   reduce-scatter   member p sends part q to every q, receives part p from all, adds x₀ + x₁ + ...
//   all-gather       member p sends its part to every q
//   all-reduce       both; where the choice is one exchange the whole goes from all to all, and each
//                    adds in order
//   broadcast        the first member sends to all
//   all-to-all       member p sends its q-th part to q

#include <cstdint>
#include <span>
#include <vector>

#include "core/program.h"
#include "engine/communicator.h"

namespace orrery::engine {

/// One collective on one member. Float32 where it reduces; the others move elements of any type.
struct CollectiveCall {
  core::CollectiveKind kind = core::CollectiveKind::AllReduce;
  core::Reduction reduction = core::Reduction::Sum;
  std::span<const core::Rank> members;  ///< Ordered.
  int position = 0;                     ///< This rank's, among them.
  int tag = 0;                          ///< Of the group's stream.
  int element_bytes = 4;
  const void* in = nullptr;   ///< The whole; for AllGather this rank's part.
  std::int64_t in_count = 0;  ///< Elements.
  void* out = nullptr;  ///< The whole; for ReduceScatter this rank's part. May lie within `in`.
  std::int64_t out_count = 0;
};

/// Elements [first, first + count) of part `part` of `total` elements cut into `parts`.
struct PartRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};
PartRange part_range(std::int64_t total, int parts, int part);

/// out[i] = r(...r(r(x₀[i], x₁[i]), x₂[i])...): the order of `inputs` is the order of the sum.
/// `out` may be one of the inputs. One, two or many inputs give the same bits per element.
void reduce_in_order(std::span<const float* const> inputs, std::int64_t count,
                     core::Reduction reduction, float* out);

/// A collective under way. One object is used for one collective after the other.
class CollectiveRun {
 public:
  /// Starts the first messages.
  void start(Communicator&, const CollectiveCall&);
  /// Goes on as far as it can without waiting; true when the collective has ended.
  bool poll(Communicator&);

 private:
  enum class Phase { Idle, Exchange, Scatter, Scattered, Gather };

  void start_exchange(Communicator&);
  void start_scatter(Communicator&);
  void start_gather(Communicator&, const std::byte* part);
  void start_broadcast(Communicator&);
  void start_all_to_all(Communicator&);
  void receive_segment(Communicator&, std::int64_t first);
  void reduce_segment();
  bool advance(Communicator&);
  bool receives_done(Communicator&);
  bool sends_done(Communicator&);
  int size() const { return static_cast<int>(call_.members.size()); }
  std::size_t bytes_of(std::int64_t elements) const;
  float* scratch_of(int member) const;

  CollectiveCall call_;
  Phase phase_ = Phase::Idle;
  std::vector<Communicator::Request> sends_;
  std::vector<Communicator::Request> receives_;
  std::vector<float> scratch_;        // One segment of every other member.
  std::vector<const float*> inputs_;  // In the order of the members.
  std::int64_t segment_first_ = 0;    // Within this rank's part.
  std::int64_t segment_count_ = 0;
  std::int64_t stride_ = 0;  // Between the members' segments in scratch_.
};

}  // namespace orrery::engine
