#pragma once
// The simulator's loop: streams start instructions, events and flows end them.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/cluster.h"
#include "core/durations.h"
#include "core/network/topology.h"
#include "core/program.h"
#include "core/trace.h"
#include "sim/communication.h"
#include "sim/event_queue.h"
#include "sim/fold.h"
#include "sim/network.h"
#include "sim/networks.h"
#include "sim/rank_state.h"
#include "sim/rendezvous.h"
#include "sim/simulate.h"

namespace orrery::sim {

class Interpreter {
 public:
  /// `builder` may be null: then only the steps' times are kept.
  Interpreter(const core::Program&, const core::Durations&, const core::Cluster&, const Networks&,
              const Fold&, const SimulateOptions&, core::TraceBuilder* builder);

  /// @throws core::SystemError on a deadlock.
  void run();

  const std::vector<core::StepInfo>& steps() const { return steps_; }
  /// What has crossed each link, for checks of conservation; by LinkId.
  const Network& network() const { return network_; }

 private:
  struct StreamOf {
    int rank = 0;  // Index into ranks_.
    core::Stream stream = core::Stream::Compute;
  };
  struct Meeting {
    core::MeetingPlace place;
    int expected = 0;
    std::vector<StreamOf> parties;
    Communication communication;  // Once all have come.
    std::size_t part = 0;
    std::size_t phase = 0;
  };
  enum class EventKind { ComputeEnds, Arrives, LatencyEnds, MeetingEnds, Issued };
  struct Event {
    EventKind kind = EventKind::ComputeEnds;
    int subject = 0;  // Index into ranks_, or into meetings_.
    core::Stream stream = core::Stream::Compute;
    std::uint64_t set =
        0;  // ComputeEnds of the compute stream: holds while Computing::set is this.
  };
  struct FlowOwner {
    std::optional<int> meeting;  // Absent: a compute instruction of `stream`.
    StreamOf stream;
  };

  void start_step(int rank);
  void start_next(int rank, core::Stream);
  void start(int rank, core::Stream, int flat);
  core::Seconds issued_at(int rank, int flat);
  void start_compute(int rank, core::Stream, int flat);
  void end(StreamOf);
  void set_compute_end(int rank);
  void communicates(StreamOf, bool starts);
  void end_step(int rank);
  void arrive(StreamOf);
  int meeting_at(const core::MeetingPlace&);
  void begin_meeting(int meeting);
  void next_phase(int meeting);
  void start_transfer(int meeting);
  void end_meeting(int meeting);
  void start_flow(const std::vector<LinkUse>&, double amount, std::optional<double> bound,
                  FlowOwner);
  void handle(const Event&);
  void handle_flow_end();
  bool advance_time();
  core::Seconds delay(int rank, int flat) const;
  std::uint64_t draw(std::uint64_t seed, int rank, int flat) const;
  double slowdown(int rank, int flat) const;
  void start_background();
  void change_memory(int rank, double bytes);
  void report_progress();
  [[noreturn]] void throw_deadlock() const;

  Running& running(StreamOf s) {
    return ranks_[static_cast<std::size_t>(s.rank)].running[static_cast<std::size_t>(s.stream)];
  }
  const core::Instruction& instruction(StreamOf s);

  const core::Program& program_;
  const core::Durations& durations_;
  core::Durations::ByInstruction issue_ends_;  // Sums of Durations::issue within each block.
  const SimulateOptions& options_;
  core::TraceBuilder* builder_;
  std::vector<std::unique_ptr<Communications>> communications_;  // By state of the network.
  const Networks& networks_;
  const Fold& fold_;
  std::vector<std::vector<LinkUse>> background_;
  std::vector<RoleSchedule> schedules_;  // By role.
  std::vector<RankState> ranks_;
  std::vector<std::optional<int>> index_of_;                // By rank: index into ranks_.
  std::vector<std::optional<std::vector<LinkUse>>> cores_;  // By index into ranks_.
  std::vector<core::Counter> memory_;                       // By index into ranks_.
  std::vector<core::StepInfo> steps_;
  std::vector<char> step_started_;
  Network network_;
  EventQueue<Event> events_;
  std::map<core::MeetingPlace, int> meeting_of_;
  std::vector<Meeting> meetings_;
  std::vector<FlowOwner> flow_owners_;  // By FlowId.
  core::Seconds now_;
  std::int64_t done_ = 0;
  std::int64_t total_ = 0;
};

}  // namespace orrery::sim
