#pragma once
// Where one simulated rank stands: step, streams, waits.

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/ids.h"
#include "core/interference.h"
#include "core/program.h"
#include "core/units.h"
#include "sim/role_schedule.h"

namespace orrery::sim {

/// The instruction that a stream runs, or is held by.
struct Running {
  bool active = false;
  int flat = 0;
  core::Seconds start;
  core::Seconds transfer;
  int meetings = 0;  ///< Communications: places where it has not finished yet.
};

/// The host issues the instructions of one call after another (core/durations.h).
struct Host {
  std::vector<std::optional<core::Seconds>> began;  ///< By call of this step.
  core::Seconds free;                               ///< When it has issued those calls.
};

/// What the compute stream runs, beside communication (core/interference.h).
struct Computing {
  core::BesideCommunication run;
  std::uint64_t set = 0;  ///< How often an end was set; the last one holds.
};

struct RankState {
  core::Rank rank;
  const RoleSchedule* schedule = nullptr;
  int step = 0;
  int ended = 0;                           ///< Instructions of this step.
  std::vector<int> waits_left;             ///< By instruction of the step.
  std::array<int, core::kStreams> next{};  ///< Position in each stream's queue.
  std::array<Running, core::kStreams> running;
  Host host;
  Computing computing;
  double memory = 0;

  /// The instruction at the head of a stream, running or not; absent when the queue is empty.
  std::optional<int> head(core::Stream stream) const {
    const std::vector<int>& queue = schedule->queue(stream);
    const auto at = static_cast<std::size_t>(next[static_cast<std::size_t>(stream)]);
    if (at >= queue.size()) return std::nullopt;
    return queue[at];
  }
  /// Whether an instruction of the present step has ended.
  bool has_ended(int flat) const {
    const std::optional<int> h = head(schedule->at(flat).stream);
    return !h || flat < *h;
  }
  bool step_ended() const { return ended == schedule->instructions(); }
};

}  // namespace orrery::sim
