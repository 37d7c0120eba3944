#include "sim/interpreter.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/error.h"
#include "core/split_mix.h"
#include "sim/deadlock.h"

namespace orrery::sim {

using core::Instruction;
using core::Program;
using core::Rank;
using core::Seconds;
using core::Stream;

namespace {

/// Links of the topology, then the cores of each node, then the one thread of each rank.
std::vector<double> capacities(const core::Cluster& cluster, const core::Topology& topology) {
  std::vector<double> all;
  for (const core::Link& link : topology.links()) all.push_back(link.cost.bandwidth.value);
  for (const core::NodeGroup& group : cluster.groups) {
    const double cores = std::max(1, group.type.cores);
    all.insert(all.end(), static_cast<std::size_t>(group.count), cores);
  }
  all.insert(all.end(), static_cast<std::size_t>(cluster.devices()), 1.0);
  return all;
}

/// What a CPU rank's compute instructions take from: its one thread, which all its streams share,
/// and the cores of its node where there are fewer than ranks, as many times as it stands for ranks
/// there. Nothing on a GPU, whose streams are its own.
std::optional<std::vector<LinkUse>> shared_cores(const core::Cluster& cluster,
                                                 const core::Topology& topology, Rank rank,
                                                 const std::vector<Rank>& others) {
  const int node = topology.node_of(rank);
  const core::NodeType& type = cluster.node_type(node);
  if (type.device.kind != core::DeviceKind::Cpu) return std::nullopt;
  const int links = static_cast<int>(topology.links().size());
  std::vector<LinkUse> uses = {{links + cluster.nodes() + rank.value, 1.0}};
  if (type.cores < type.devices) {
    const auto here = std::count_if(others.begin(), others.end(),
                                    [&](Rank other) { return topology.node_of(other) == node; });
    uses.push_back({links + node, 1.0 + static_cast<double>(here)});
  }
  return uses;
}

/// Sums over each block: when the host has issued an instruction, counted from the call's first.
core::Durations::ByInstruction sums_of(core::Durations::ByInstruction issue) {
  for (auto& blocks : issue) {
    for (auto& block : blocks) {
      for (std::size_t i = 1; i < block.size(); ++i) block[i] += block[i - 1];
    }
  }
  return issue;
}

// Calls of SimulateOptions::progress per run.
constexpr std::int64_t kProgressCalls = 200;

}  // namespace

Interpreter::Interpreter(const Program& program, const core::Durations& durations,
                         const core::Cluster& cluster, const Networks& networks, const Fold& fold,
                         const SimulateOptions& options, core::TraceBuilder* builder)
    : program_(program),
      durations_(durations),
      issue_ends_(sums_of(durations.issue)),
      options_(options),
      builder_(builder),
      networks_(networks),
      fold_(fold),
      index_of_(program.ranks.size()),
      steps_(static_cast<std::size_t>(options.steps)),
      step_started_(static_cast<std::size_t>(options.steps), 0),
      network_(capacities(cluster, networks.healthy())) {
  for (std::size_t s = 0; s < networks.states(); ++s) {
    communications_.push_back(std::make_unique<Communications>(
        program, networks.healthy(), networks.state(s), fold, options.algorithm));
  }
  for (const core::Role& role : program.roles) schedules_.emplace_back(role);
  for (std::size_t i = 0; i < fold.simulated.size(); ++i) {
    const Rank rank = fold.simulated[i];
    index_of_[rank.index()] = static_cast<int>(ranks_.size());
    RankState& state = ranks_.emplace_back();
    state.rank = rank;
    state.schedule = &schedules_[program.ranks[rank.index()].role.index()];
    state.memory = state.schedule->persistent();
    const core::Device& device = cluster.node_type(networks.healthy().node_of(rank)).device;
    state.computing.run = core::BesideCommunication(device.beside_communication);
    total_ += std::int64_t{options.steps} * state.schedule->instructions();
    cores_.push_back(shared_cores(cluster, networks.healthy(), rank, fold.others[i]));
    memory_.push_back({"live memory", "B", rank, {Seconds(0)}, {state.memory}});
  }
}

void Interpreter::run() {
  start_background();
  for (std::size_t r = 0; r < ranks_.size(); ++r) start_step(static_cast<int>(r));
  while (advance_time()) {
  }
  if (done_ < total_) throw_deadlock();
  if (builder_ == nullptr) return;
  for (const core::StepInfo& step : steps_) builder_->add_step(step);
  if (!options_.memory_counters) return;
  for (core::Counter& counter : memory_) builder_->add_counter(std::move(counter));
}

/// Handles the next event or end of a flow; false when there is none.
bool Interpreter::advance_time() {
  const std::optional<Seconds> flow_end = network_.next_end();
  const bool event_first = !events_.empty() && (!flow_end || events_.next_time() <= *flow_end);
  const bool any = event_first || flow_end.has_value();
  if (!network_.settled() && (!any || (event_first ? events_.next_time() : *flow_end) > now_)) {
    network_.settle(now_);
    return true;
  }
  if (!any) return false;
  if (event_first) {
    const auto event = events_.pop();
    now_ = event.time;
    handle(event.payload);
  } else {
    now_ = *flow_end;
    handle_flow_end();
  }
  return true;
}

void Interpreter::handle(const Event& event) {
  switch (event.kind) {
    case EventKind::ComputeEnds:
      if (event.set != ranks_[static_cast<std::size_t>(event.subject)].computing.set &&
          event.stream == Stream::Compute) {
        return;  // Communication has moved its end.
      }
      end({event.subject, event.stream});
      return;
    case EventKind::Arrives:
      arrive({event.subject, event.stream});
      return;
    case EventKind::LatencyEnds:
      start_transfer(event.subject);
      return;
    case EventKind::MeetingEnds:
      end_meeting(event.subject);
      return;
    case EventKind::Issued:
      start_next(event.subject, event.stream);
      return;
  }
}

void Interpreter::handle_flow_end() {
  const FlowOwner owner = flow_owners_[network_.end_next().index()];
  if (!owner.meeting) {
    end(owner.stream);
    return;
  }
  ++meetings_[static_cast<std::size_t>(*owner.meeting)].phase;
  next_phase(*owner.meeting);
}

// ---- streams -------------------------------------------------------------------------------

const Instruction& Interpreter::instruction(StreamOf s) {
  return ranks_[static_cast<std::size_t>(s.rank)].schedule->at(running(s).flat);
}

void Interpreter::start_step(int rank) {
  RankState& state = ranks_[static_cast<std::size_t>(rank)];
  state.ended = 0;
  state.waits_left = state.schedule->wait_counts();
  state.next.fill(0);
  if (!issue_ends_.empty()) state.host.began.assign(state.schedule->role().step.size(), {});
  state.host.free = now_;
  const auto step = static_cast<std::size_t>(state.step);
  if (!step_started_[step]) {
    step_started_[step] = 1;
    steps_[step].start = now_;
  }
  for (int s = 0; s < core::kStreams; ++s) start_next(rank, static_cast<Stream>(s));
}

/// Starts the head of a stream that is free, if all that it waits for has ended and the host has
/// issued it.
void Interpreter::start_next(int rank, Stream stream) {
  const RankState& state = ranks_[static_cast<std::size_t>(rank)];
  if (state.running[static_cast<std::size_t>(stream)].active) return;
  const std::optional<int> head = state.head(stream);
  if (!head || state.waits_left[static_cast<std::size_t>(*head)] > 0) return;
  const Seconds issued = issued_at(rank, *head);
  if (issued > now_) {
    events_.push(issued, {EventKind::Issued, rank, stream});
  } else {
    start(rank, stream, *head);
  }
}

/// When the host has issued an instruction that could start now but for that.
Seconds Interpreter::issued_at(int rank, int flat) {
  if (issue_ends_.empty()) return now_;
  RankState& state = ranks_[static_cast<std::size_t>(rank)];
  const RoleSchedule& schedule = *state.schedule;
  const auto call = static_cast<std::size_t>(schedule.call_of(flat));
  const auto role = program_.ranks[state.rank.index()].role.index();
  const auto block = schedule.role().step[call].block.index();
  const auto index = static_cast<std::size_t>(schedule.index_of(flat));
  if (durations_.issue[role][block][index] == Seconds(0)) return now_;
  const std::vector<Seconds>& ends = issue_ends_[role][block];
  std::optional<Seconds>& began = state.host.began[call];
  if (!began) {
    began = std::max(now_, state.host.free);
    state.host.free = *began + ends.back();
  }
  return *began + ends[index];
}

void Interpreter::start(int rank, Stream stream, int flat) {
  RankState& state = ranks_[static_cast<std::size_t>(rank)];
  state.running[static_cast<std::size_t>(stream)] = {true, flat, now_, now_, 0};
  change_memory(rank, state.schedule->allocates(flat));
  if (std::holds_alternative<core::Compute>(state.schedule->at(flat).operation)) {
    start_compute(rank, stream, flat);
    return;
  }
  const Seconds late = delay(rank, flat);
  if (late.value > 0) {
    events_.push(now_ + late, {EventKind::Arrives, rank, stream});
  } else {
    arrive({rank, stream});
  }
}

void Interpreter::start_compute(int rank, Stream stream, int flat) {
  const RankState& state = ranks_[static_cast<std::size_t>(rank)];
  const core::RoleId role = program_.ranks[state.rank.index()].role;
  const RoleSchedule& schedule = *state.schedule;
  const Seconds duration = durations_.of(role, schedule.call(flat).block, schedule.index_of(flat)) *
                               slowdown(rank, flat) +
                           delay(rank, flat);
  const auto& cores = cores_[static_cast<std::size_t>(rank)];
  if (cores && duration.value > 0) {
    start_flow(*cores, duration.value, 1.0, {std::nullopt, {rank, stream}});
  } else if (stream == Stream::Compute) {
    ranks_[static_cast<std::size_t>(rank)].computing.run.compute(now_, duration);
    set_compute_end(rank);
  } else {
    events_.push(now_ + duration, {EventKind::ComputeEnds, rank, stream});
  }
}

void Interpreter::set_compute_end(int rank) {
  Computing& computing = ranks_[static_cast<std::size_t>(rank)].computing;
  events_.push(computing.run.end(),
               {EventKind::ComputeEnds, rank, Stream::Compute, ++computing.set});
}

/// Where a communication starts to move its bytes, or ends: what is computed beside it takes longer.
void Interpreter::communicates(StreamOf s, bool starts) {
  if (!core::takes_from_computing(s.stream)) return;
  core::BesideCommunication& run = ranks_[static_cast<std::size_t>(s.rank)].computing.run;
  if (starts ? run.communication_starts(now_) : run.communication_ends(now_)) {
    set_compute_end(s.rank);
  }
}

void Interpreter::end(StreamOf s) {
  RankState& state = ranks_[static_cast<std::size_t>(s.rank)];
  Running& ended = running(s);
  if (s.stream == Stream::Compute) state.computing.run.stop_computing();
  const int flat = ended.flat;
  const RoleSchedule& schedule = *state.schedule;
  if (builder_ != nullptr) {
    builder_->add(state.rank, {state.step, schedule.call_of(flat), schedule.index_of(flat)},
                  ended.start, ended.transfer, now_,
                  moved_bytes(program_, state.rank, schedule.at(flat)));
  }
  change_memory(s.rank, -schedule.frees(flat));
  ended.active = false;
  ++state.next[static_cast<std::size_t>(s.stream)];
  ++state.ended;
  ++done_;
  report_progress();
  if (state.step_ended()) {
    end_step(s.rank);
    return;
  }
  start_next(s.rank, s.stream);
  for (const int next : schedule.successors_of(flat)) {
    if (--state.waits_left[static_cast<std::size_t>(next)] > 0) continue;
    start_next(s.rank, schedule.at(next).stream);
  }
}

void Interpreter::end_step(int rank) {
  RankState& state = ranks_[static_cast<std::size_t>(rank)];
  core::StepInfo& step = steps_[static_cast<std::size_t>(state.step)];
  step.end = std::max(step.end, now_);
  change_memory(rank, -state.schedule->unfreed());
  if (++state.step < options_.steps) start_step(rank);
}

// ---- meetings ------------------------------------------------------------------------------

void Interpreter::arrive(StreamOf s) {
  const Rank rank = ranks_[static_cast<std::size_t>(s.rank)].rank;
  const std::vector<core::MeetingPlace> places =
      core::meeting_places(program_, rank, instruction(s));
  running(s).meetings = static_cast<int>(places.size());
  for (const core::MeetingPlace& place : places) {
    const int m = meeting_at(place);
    Meeting& meeting = meetings_[static_cast<std::size_t>(m)];
    ORRERY_CHECK(static_cast<int>(meeting.parties.size()) < meeting.expected,
                 "an instruction comes to a meeting that has begun");
    meeting.parties.push_back(s);
    if (static_cast<int>(meeting.parties.size()) == meeting.expected) begin_meeting(m);
  }
}

int Interpreter::meeting_at(const core::MeetingPlace& place) {
  const auto [it, fresh] = meeting_of_.try_emplace(place, static_cast<int>(meetings_.size()));
  if (!fresh) return it->second;
  Meeting& meeting = meetings_.emplace_back();
  meeting.place = place;
  const std::vector<Rank> parties = core::parties_of(program_, place);
  meeting.expected = static_cast<int>(std::count_if(
      parties.begin(), parties.end(), [this](Rank r) { return index_of_[r.index()].has_value(); }));
  return it->second;
}

void Interpreter::begin_meeting(int m) {
  Meeting& meeting = meetings_[static_cast<std::size_t>(m)];
  for (const StreamOf s : meeting.parties) {
    running(s).transfer = now_;
    communicates(s, true);
  }
  // Of a message, pull or push the place names the sender or worker first.
  StreamOf speaker = meeting.parties.front();
  if (meeting.place.kind != core::MeetingKind::Collective) {
    const auto speaks = [&](StreamOf s) {
      const auto& operation = instruction(s).operation;
      return std::holds_alternative<core::Send>(operation) ||
             std::holds_alternative<core::Pull>(operation) ||
             std::holds_alternative<core::Push>(operation);
    };
    speaker = *std::find_if(meeting.parties.begin(), meeting.parties.end(), speaks);
  }
  const Rank rank = ranks_[static_cast<std::size_t>(speaker.rank)].rank;
  const int step = ranks_[static_cast<std::size_t>(speaker.rank)].step;
  meeting.communication = communication_at(meeting.place, rank, instruction(speaker), program_,
                                           *communications_[networks_.state_of(step)]);
  meeting.part = 0;
  meeting.phase = 0;
  next_phase(m);
}

void Interpreter::next_phase(int m) {
  Meeting& meeting = meetings_[static_cast<std::size_t>(m)];
  while (meeting.part < meeting.communication.size()) {
    const std::vector<PhaseShape>& phases = *meeting.communication[meeting.part].phases;
    if (meeting.phase < phases.size()) {
      const PhaseShape& phase = phases[meeting.phase];
      const Seconds sums(phase.sums * meeting.communication[meeting.part].bytes.value);
      events_.push(now_ + phase.latency + sums, {EventKind::LatencyEnds, m, Stream::Compute});
      return;
    }
    ++meeting.part;
    meeting.phase = 0;
  }
  events_.push(now_, {EventKind::MeetingEnds, m, Stream::Compute});
}

void Interpreter::start_transfer(int m) {
  Meeting& meeting = meetings_[static_cast<std::size_t>(m)];
  const Part& part = meeting.communication[meeting.part];
  const PhaseShape& phase = (*part.phases)[meeting.phase];
  const double amount = phase.amount * part.bytes.value;
  if (amount > 0) {
    start_flow(phase.uses, amount, std::nullopt, {m, {}});
    return;
  }
  ++meeting.phase;
  next_phase(m);
}

void Interpreter::end_meeting(int m) {
  const std::vector<StreamOf> parties =
      std::exchange(meetings_[static_cast<std::size_t>(m)].parties, {});
  for (const StreamOf s : parties) {
    communicates(s, false);
    if (--running(s).meetings == 0) end(s);
  }
}

// ---- bookkeeping ---------------------------------------------------------------------------

void Interpreter::start_flow(const std::vector<LinkUse>& uses, double amount,
                             std::optional<double> bound, FlowOwner owner) {
  const FlowId id = network_.start(uses, amount, bound);
  if (id.index() >= flow_owners_.size()) flow_owners_.resize(id.index() + 1);
  flow_owners_[id.index()] = owner;
}

std::uint64_t Interpreter::draw(std::uint64_t seed, int rank, int flat) const {
  const RankState& state = ranks_[static_cast<std::size_t>(rank)];
  std::uint64_t bits = seed;
  for (const int part : {state.rank.value, state.step, flat}) {
    bits = core::mix(bits ^ static_cast<std::uint64_t>(part));
  }
  return bits;
}

Seconds Interpreter::delay(int rank, int flat) const {
  if (!options_.delays) return Seconds(0);
  return options_.delays->most * core::fraction(draw(options_.delays->seed, rank, flat));
}

/// What a compute instruction's duration is multiplied with.
double Interpreter::slowdown(int rank, int flat) const {
  const core::Perturbations& perturbations = options_.perturbations;
  const RankState& state = ranks_[static_cast<std::size_t>(rank)];
  double factor = 1;
  for (const core::Straggler& straggler : perturbations.stragglers) {
    if (straggler.rank == state.rank && straggler.steps.has(state.step)) {
      factor *= straggler.slowdown;
    }
  }
  if (!perturbations.jitter) return factor;
  const std::uint64_t bits = draw(perturbations.jitter->seed, rank, flat);
  return factor * std::exp(perturbations.jitter->deviation * core::normal(bits));
}

/// Of links that stand for others their class has as much to carry on each.
void Interpreter::start_background() {
  const core::Topology& topology = networks_.healthy();
  for (const core::BackgroundFlow& flow : options_.perturbations.background) {
    std::vector<LinkUse>& uses = background_.emplace_back();
    for (const core::LinkLoad& load :
         core::link_loads({{flow.from, flow.to, core::Bytes(1)}}, topology)) {
      const std::size_t link = load.link.index();
      if (fold_.symmetry && fold_.symmetry->link_class[link] != link) continue;
      uses.push_back({load.link.value, load.bytes.value});
    }
  }
  for (std::size_t i = 0; i < background_.size(); ++i) {
    start_flow(background_[i], std::numeric_limits<double>::infinity(),
               options_.perturbations.background[i].rate.value, {});
  }
}

void Interpreter::change_memory(int rank, double bytes) {
  if (bytes == 0) return;
  RankState& state = ranks_[static_cast<std::size_t>(rank)];
  state.memory += bytes;
  if (builder_ == nullptr || !options_.memory_counters) return;
  core::Counter& counter = memory_[static_cast<std::size_t>(rank)];
  if (counter.time.back() == now_) {
    counter.value.back() = state.memory;
  } else {
    counter.time.push_back(now_);
    counter.value.push_back(state.memory);
  }
}

void Interpreter::report_progress() {
  if (!options_.progress) return;
  const std::int64_t every = std::max<std::int64_t>(1, total_ / kProgressCalls);
  if (done_ % every == 0) {
    options_.progress(static_cast<double>(done_) / static_cast<double>(total_));
  }
}

void Interpreter::throw_deadlock() const {
  std::vector<OpenPlace> open;
  for (const Meeting& meeting : meetings_) {
    if (meeting.parties.empty()) continue;
    OpenPlace& place = open.emplace_back();
    place.place = meeting.place;
    for (const StreamOf s : meeting.parties) {
      place.arrived.push_back(ranks_[static_cast<std::size_t>(s.rank)].rank);
    }
  }
  throw core::SystemError(explain_deadlock(program_, ranks_, open));
}

}  // namespace orrery::sim
