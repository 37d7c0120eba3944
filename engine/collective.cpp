#include "engine/collective.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/network/collective_choice.h"

namespace orrery::engine {

namespace {

using core::CollectiveKind;
using core::Reduction;

// Elements that a member receives from each other before it adds: the segments of eight members and
// the sum (2.3 MiB) stay within a core's cache, and a message of 256 KiB is long against its cost.
constexpr std::int64_t kSegmentElements = 1 << 16;

const std::byte* at(const void* base, std::size_t bytes) {
  return static_cast<const std::byte*>(base) + bytes;
}
std::byte* at(void* base, std::size_t bytes) { return static_cast<std::byte*>(base) + bytes; }

template <class Combine>
void fold(std::span<const float* const> inputs, std::int64_t count, float* out, Combine combine) {
  // Blocks keep the running sum in the first-level cache; per element the order is that of
  // `inputs`.
  constexpr std::int64_t kBlock = 1024;
  float sum[kBlock];
  for (std::int64_t first = 0; first < count; first += kBlock) {
    const std::int64_t n = std::min(kBlock, count - first);
    std::copy_n(inputs[0] + first, n, sum);
    for (std::size_t k = 1; k < inputs.size(); ++k) {
      const float* x = inputs[k] + first;
      for (std::int64_t i = 0; i < n; ++i) sum[i] = combine(sum[i], x[i]);
    }
    std::copy_n(sum, n, out + first);
  }
}

}  // namespace

PartRange part_range(std::int64_t total, int parts, int part) {
  const std::int64_t first = total * part / parts;
  return {first, total * (part + 1) / parts - first};
}

void reduce_in_order(std::span<const float* const> inputs, std::int64_t count, Reduction reduction,
                     float* out) {
  switch (reduction) {
    case Reduction::Sum:
      fold(inputs, count, out, [](float a, float b) { return a + b; });
      return;
    case Reduction::Max:
      fold(inputs, count, out, [](float a, float b) { return a < b ? b : a; });
      return;
  }
}

std::size_t CollectiveRun::bytes_of(std::int64_t elements) const {
  return static_cast<std::size_t>(elements) * static_cast<std::size_t>(call_.element_bytes);
}

float* CollectiveRun::scratch_of(int member) const {
  const int other = member < call_.position ? member : member - 1;
  return const_cast<float*>(scratch_.data()) + other * stride_;
}

void CollectiveRun::start(Communicator& communicator, const CollectiveCall& call) {
  call_ = call;
  sends_.clear();
  receives_.clear();
  if (size() == 1) {
    phase_ = Phase::Idle;
    if (call_.out != call_.in) std::memmove(call_.out, call_.in, bytes_of(call_.in_count));
    return;
  }
  switch (call_.kind) {
    case CollectiveKind::AllReduce: {
      const core::Bytes bytes(static_cast<double>(bytes_of(call_.in_count)));
      if (core::all_pairs_algorithm(call_.kind, bytes) == core::CollectiveAlgorithm::Exchange) {
        start_exchange(communicator);
      } else {
        start_scatter(communicator);
      }
      return;
    }
    case CollectiveKind::ReduceScatter:
      start_scatter(communicator);
      return;
    case CollectiveKind::AllGather:
      start_gather(communicator, at(call_.in, 0));
      return;
    case CollectiveKind::Broadcast:
      start_broadcast(communicator);
      return;
    case CollectiveKind::AllToAll:
      start_all_to_all(communicator);
      return;
  }
}

// Everybody's whole buffer to everybody: the messages leave before any sum overwrites the buffer,
// because a send is done when the receiver has the data and the sum waits for the sends.
void CollectiveRun::start_exchange(Communicator& communicator) {
  phase_ = Phase::Exchange;
  segment_first_ = 0;
  segment_count_ = call_.in_count;
  stride_ = call_.in_count;
  scratch_.resize(static_cast<std::size_t>(stride_ * (size() - 1)));
  for (int member = 0; member < size(); ++member) {
    if (member == call_.position) continue;
    const core::Rank peer = call_.members[static_cast<std::size_t>(member)];
    receives_.push_back(
        communicator.start_receive(peer, call_.tag, scratch_of(member), bytes_of(call_.in_count)));
    sends_.push_back(communicator.start_send(peer, call_.tag, call_.in, bytes_of(call_.in_count)));
  }
}

void CollectiveRun::start_scatter(Communicator& communicator) {
  phase_ = Phase::Scatter;
  const PartRange own = part_range(call_.in_count, size(), call_.position);
  if (call_.kind == CollectiveKind::ReduceScatter) {
    ORRERY_CHECK(own.count == call_.out_count, "a reduce-scatter writes one of its equal parts");
  }
  stride_ = std::min(own.count, kSegmentElements);
  scratch_.resize(static_cast<std::size_t>(stride_ * (size() - 1)));
  receive_segment(communicator, 0);
  for (int member = 0; member < size(); ++member) {
    if (member == call_.position) continue;
    const PartRange part = part_range(call_.in_count, size(), member);
    for (std::int64_t first = 0; first < part.count; first += kSegmentElements) {
      sends_.push_back(
          communicator.start_send(call_.members[static_cast<std::size_t>(member)], call_.tag,
                                  at(call_.in, bytes_of(part.first + first)),
                                  bytes_of(std::min(kSegmentElements, part.count - first))));
    }
  }
}

void CollectiveRun::receive_segment(Communicator& communicator, std::int64_t first) {
  const PartRange own = part_range(call_.in_count, size(), call_.position);
  segment_first_ = first;
  segment_count_ = std::min(kSegmentElements, own.count - first);
  if (segment_count_ == 0) return;
  for (int member = 0; member < size(); ++member) {
    if (member == call_.position) continue;
    receives_.push_back(communicator.start_receive(call_.members[static_cast<std::size_t>(member)],
                                                   call_.tag, scratch_of(member),
                                                   bytes_of(segment_count_)));
  }
}

void CollectiveRun::reduce_segment() {
  const bool whole = phase_ == Phase::Exchange;
  const PartRange own =
      whole ? PartRange{0, call_.in_count} : part_range(call_.in_count, size(), call_.position);
  const float* mine = static_cast<const float*>(call_.in) + own.first + segment_first_;
  inputs_.clear();
  for (int member = 0; member < size(); ++member) {
    inputs_.push_back(member == call_.position ? mine : scratch_of(member));
  }
  const bool part_only = call_.kind == CollectiveKind::ReduceScatter;
  float* out = static_cast<float*>(call_.out) + (part_only ? 0 : own.first) + segment_first_;
  reduce_in_order(inputs_, segment_count_, call_.reduction, out);
}

// Sends this rank's part (at `part`) to all, receives theirs into place.
void CollectiveRun::start_gather(Communicator& communicator, const std::byte* part) {
  phase_ = Phase::Gather;
  const PartRange own = part_range(call_.out_count, size(), call_.position);
  if (call_.kind == CollectiveKind::AllGather) {
    ORRERY_CHECK(own.count == call_.in_count, "an all-gather reads one of its equal parts");
  }
  for (int member = 0; member < size(); ++member) {
    if (member == call_.position) continue;
    const core::Rank peer = call_.members[static_cast<std::size_t>(member)];
    const PartRange theirs = part_range(call_.out_count, size(), member);
    receives_.push_back(communicator.start_receive(
        peer, call_.tag, at(call_.out, bytes_of(theirs.first)), bytes_of(theirs.count)));
    sends_.push_back(communicator.start_send(peer, call_.tag, part, bytes_of(own.count)));
  }
  std::byte* place = at(call_.out, bytes_of(own.first));
  if (place != part && own.count != 0) std::memmove(place, part, bytes_of(own.count));
}

void CollectiveRun::start_broadcast(Communicator& communicator) {
  phase_ = Phase::Gather;
  if (call_.position != 0) {
    receives_.push_back(communicator.start_receive(call_.members[0], call_.tag, call_.out,
                                                   bytes_of(call_.out_count)));
    return;
  }
  for (const core::Rank peer : call_.members.subspan(1)) {
    sends_.push_back(communicator.start_send(peer, call_.tag, call_.in, bytes_of(call_.in_count)));
  }
  if (call_.out != call_.in) std::memmove(call_.out, call_.in, bytes_of(call_.in_count));
}

void CollectiveRun::start_all_to_all(Communicator& communicator) {
  phase_ = Phase::Gather;
  ORRERY_CHECK(call_.in != call_.out, "an all-to-all is not in place");
  for (int member = 0; member < size(); ++member) {
    const PartRange part = part_range(call_.in_count, size(), member);
    const std::byte* from = at(call_.in, bytes_of(part.first));
    std::byte* to = at(call_.out, bytes_of(part.first));
    if (member == call_.position) {
      std::memcpy(to, from, bytes_of(part.count));
      continue;
    }
    const core::Rank peer = call_.members[static_cast<std::size_t>(member)];
    receives_.push_back(communicator.start_receive(peer, call_.tag, to, bytes_of(part.count)));
    sends_.push_back(communicator.start_send(peer, call_.tag, from, bytes_of(part.count)));
  }
}

bool CollectiveRun::receives_done(Communicator& communicator) {
  while (!receives_.empty() && communicator.test(receives_.back())) receives_.pop_back();
  return receives_.empty();
}

bool CollectiveRun::sends_done(Communicator& communicator) {
  while (!sends_.empty() && communicator.test(sends_.back())) sends_.pop_back();
  return sends_.empty();
}

bool CollectiveRun::poll(Communicator& communicator) {
  while (phase_ != Phase::Idle) {
    if (!receives_done(communicator)) return false;
    if (!advance(communicator)) return false;
  }
  return true;
}

// Called when all receives of the phase are done; false when the phase waits for its sends.
bool CollectiveRun::advance(Communicator& communicator) {
  switch (phase_) {
    case Phase::Idle:
      return true;
    case Phase::Exchange:
      if (!sends_done(communicator)) return false;
      reduce_segment();
      phase_ = Phase::Idle;
      return true;
    case Phase::Scatter: {
      reduce_segment();
      const PartRange own = part_range(call_.in_count, size(), call_.position);
      const std::int64_t next = segment_first_ + segment_count_;
      if (next < own.count) {
        receive_segment(communicator, next);
      } else {
        phase_ = Phase::Scattered;
      }
      return true;
    }
    case Phase::Scattered: {
      // What is gathered overwrites what was sent.
      if (!sends_done(communicator)) return false;
      if (call_.kind == CollectiveKind::ReduceScatter) {
        phase_ = Phase::Idle;
        return true;
      }
      const PartRange own = part_range(call_.in_count, size(), call_.position);
      start_gather(communicator, at(call_.out, bytes_of(own.first)));
      return true;
    }
    case Phase::Gather:
      if (!sends_done(communicator)) return false;
      phase_ = Phase::Idle;
      return true;
  }
  return true;
}

}  // namespace orrery::engine
