#include "core/check/rendezvous_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "core/lowering/access_order.h"

namespace orrery::core {
namespace {

struct Place {
  int call = 0;
  int index = 0;
};

/// A communication of a role, and how many communications of each stream must have ended before it
/// may start. Compute instructions only pass such requirements on.
struct Step {
  Place place;
  Clock required{};
};

/// A role's communications by stream, in order.
using RoleOrder = std::array<std::vector<Step>, kStreams>;

RoleOrder order_of(const Role& role) {
  RoleOrder order;
  std::vector<Clock> ended;  // Communications ended once an instruction has, by position.
  std::vector<std::size_t> first_of_call;
  std::array<Clock, kStreams> stream_clock{};
  for (int c = 0; c < static_cast<int>(role.step.size()); ++c) {
    const Call& call = role.step[static_cast<std::size_t>(c)];
    const auto& instructions = role.blocks[call.block.index()].instructions;
    first_of_call.push_back(ended.size());
    for (int i = 0; i < static_cast<int>(instructions.size()); ++i) {
      const Instruction& instruction = instructions[static_cast<std::size_t>(i)];
      const auto stream = static_cast<std::size_t>(instruction.stream);
      Clock clock = stream_clock[stream];
      for (const int wait : instruction.waits) {
        join(clock, ended[first_of_call.back() + static_cast<std::size_t>(wait)]);
      }
      for (const CallWait& wait : call.waits) {
        if (wait.instruction != i) continue;
        join(clock, ended[first_of_call[static_cast<std::size_t>(wait.call)] +
                          static_cast<std::size_t>(wait.other)]);
      }
      if (!std::holds_alternative<Compute>(instruction.operation)) {
        order[stream].push_back({{c, i}, clock});
        clock[stream] = static_cast<int>(order[stream].size());
      }
      stream_clock[stream] = clock;
      ended.push_back(clock);
    }
  }
  return order;
}

/// One side of a meeting: which rank's stream holds it, and what it brings.
struct Party {
  Rank rank;
  std::size_t stream = 0;
  Bytes bytes;
  CollectiveKind kind = CollectiveKind::AllReduce;
};

enum class Side { Give, Take };
enum class Service { Activation, Gradient, Pull, Push };
using PairKey = std::tuple<Rank, Rank, Service>;  ///< Giver (worker), taker (server), what.
using MeetingKey = std::tuple<GroupId, std::size_t>;

class Player {
 public:
  Player(const Program& program, const std::vector<Rank>& ranks)
      : program_(program),
        ranks_(ranks),
        played_(program.ranks.size(), false),
        state_(program.ranks.size()),
        queue_(ranks.begin(), ranks.end()),
        expected_(program.groups.size(), 0) {
    for (const Role& role : program.roles) orders_.push_back(order_of(role));
    for (const Rank rank : ranks) played_[rank.index()] = true;
  }

  std::vector<std::string> play() {
    while (!queue_.empty()) {
      const Rank rank = queue_.front();
      queue_.pop_front();
      while (advance(rank)) {
      }
    }
    if (faults_.empty()) report_stuck();
    return std::move(faults_);
  }

 private:
  struct State {
    Clock done{};                         ///< Communications ended, per stream.
    std::array<bool, kStreams> joined{};  ///< The head waits for its other parties.
    std::array<int, kStreams> missing{};  ///< Parties the head still lacks.
  };

  const RoleOrder& order_of_rank(Rank rank) const {
    return orders_[program_.ranks[rank.index()].role.index()];
  }
  /// The next communication of a stream; null at its end.
  const Step* head(Rank rank, std::size_t stream) const {
    const auto& list = order_of_rank(rank)[stream];
    const auto done = static_cast<std::size_t>(state_[rank.index()].done[stream]);
    return done == list.size() ? nullptr : &list[done];
  }
  const Instruction& instruction(Rank rank, Place at) const {
    return program_.role_of(rank).at(at.call, at.index);
  }
  std::string name(Rank rank, Place at) const {
    return fmt::format("rank {} call {} instruction {} ({} on {})", rank.value, at.call, at.index,
                       instruction(rank, at).label, stream_name(instruction(rank, at).stream));
  }

  /// A stream that has not got as far as `step` requires.
  std::optional<std::size_t> unmet_stream(Rank rank, const Step& step) const {
    for (std::size_t s = 0; s < kStreams; ++s) {
      if (state_[rank.index()].done[s] < step.required[s]) return s;
    }
    return std::nullopt;
  }

  bool advance(Rank rank) {
    bool moved = false;
    for (std::size_t s = 0; s < kStreams; ++s) {
      while (!state_[rank.index()].joined[s]) {
        const Step* step = head(rank, s);
        if (step == nullptr || unmet_stream(rank, *step)) break;
        moved = true;
        start(rank, s, instruction(rank, step->place));
      }
    }
    return moved;
  }

  void end(Rank rank, std::size_t stream) {
    State& state = state_[rank.index()];
    state.joined[stream] = false;
    ++state.done[stream];
    queue_.push_back(rank);
  }

  void start(Rank rank, std::size_t stream, const Instruction& instruction) {
    const RankBinding& binding = program_.ranks[rank.index()];
    state_[rank.index()].joined[stream] = true;
    if (const auto* c = std::get_if<Collective>(&instruction.operation)) {
      join_group(binding.groups[c->group.index()], {rank, stream, c->bytes, c->kind});
    } else if (const auto* send = std::get_if<Send>(&instruction.operation)) {
      meet(rank, stream, send->bytes, {binding.peers[send->peer.index()]}, Side::Give,
           send->channel == Channel::Activation ? Service::Activation : Service::Gradient);
    } else if (const auto* receive = std::get_if<Receive>(&instruction.operation)) {
      meet(rank, stream, receive->bytes, {binding.peers[receive->peer.index()]}, Side::Take,
           receive->channel == Channel::Activation ? Service::Activation : Service::Gradient);
    } else if (const auto* pull = std::get_if<Pull>(&instruction.operation)) {
      meet(rank, stream, Bytes(), servers(binding, pull->servers), Side::Give, Service::Pull);
    } else if (const auto* push = std::get_if<Push>(&instruction.operation)) {
      meet(rank, stream, Bytes(), servers(binding, push->servers), Side::Give, Service::Push);
    } else if (const auto* serve = std::get_if<ServePull>(&instruction.operation)) {
      meet(rank, stream, Bytes(), {binding.peers[serve->worker.index()]}, Side::Take,
           Service::Pull);
    } else if (const auto* take = std::get_if<ServePush>(&instruction.operation)) {
      meet(rank, stream, Bytes(), {binding.peers[take->worker.index()]}, Side::Take, Service::Push);
    }
  }

  const std::vector<Rank>& servers(const RankBinding& binding, GroupSlot slot) const {
    return program_.groups[binding.groups[slot.index()].index()].members;
  }

  void join_group(GroupId group, const Party& party) {
    auto& parties = meetings_[{group, party.stream}];
    parties.push_back(party);
    const auto& members = program_.groups[group.index()].members;
    std::size_t& expected = expected_[group.index()];
    if (expected == 0) {
      expected = static_cast<std::size_t>(std::count_if(
          members.begin(), members.end(), [&](Rank member) { return played_[member.index()]; }));
    }
    if (parties.size() < expected) return;
    for (const Party& other : parties) {
      if (other.bytes != party.bytes || other.kind != party.kind) {
        faults_.push_back(fmt::format(
            "{} group of rank {}: rank {} brings {} of {} B but rank {} brings {} of {} B",
            group_kind_name(program_.groups[group.index()].kind), members.front().value,
            party.rank.value, collective_name(party.kind), party.bytes.value, other.rank.value,
            collective_name(other.kind), other.bytes.value));
      }
    }
    const std::vector<Party> met = std::move(parties);
    meetings_.erase({group, party.stream});
    for (const Party& other : met) end(other.rank, other.stream);
  }

  void meet(Rank rank, std::size_t stream, Bytes bytes, const std::vector<Rank>& peers, Side side,
            Service service) {
    state_[rank.index()].missing[stream] = static_cast<int>(peers.size());
    for (const Rank peer : peers) {
      if (!played_[peer.index()]) {
        one_less(rank, stream);
        continue;
      }
      const bool give = side == Side::Give;
      const PairKey key{give ? rank : peer, give ? peer : rank, service};
      auto& mine = give ? givers_[key] : takers_[key];
      auto& theirs = give ? takers_[key] : givers_[key];
      if (theirs.empty()) {
        mine.push_back({rank, stream, bytes});
        continue;
      }
      const Party other = theirs.front();
      theirs.pop_front();
      if (other.bytes != bytes) {
        faults_.push_back(fmt::format("rank {} and rank {} disagree on a message: {} B and {} B",
                                      rank.value, peer.value, bytes.value, other.bytes.value));
      }
      one_less(other.rank, other.stream);
      one_less(rank, stream);
    }
  }

  void one_less(Rank rank, std::size_t stream) {
    if (--state_[rank.index()].missing[stream] == 0) end(rank, stream);
  }

  // ---- when nobody can move ----------------------------------------------------------------

  using Blocked = std::pair<Rank, std::size_t>;

  /// The (rank, stream) whose head the given head waits for, where it can be named.
  std::optional<Blocked> blocker(Blocked blocked) const {
    const auto [rank, stream] = blocked;
    const Step* step = head(rank, stream);
    if (step == nullptr) return std::nullopt;
    if (const auto unmet = unmet_stream(rank, *step)) return Blocked{rank, *unmet};
    for (const Rank other : partners(rank, instruction(rank, step->place))) {
      if (other == rank || !played_[other.index()]) continue;
      for (std::size_t s = 0; s < kStreams; ++s) {
        if (head(other, s) != nullptr && !state_[other.index()].joined[s]) return Blocked{other, s};
      }
    }
    return std::nullopt;
  }

  std::vector<Rank> partners(Rank rank, const Instruction& instruction) const {
    const RankBinding& binding = program_.ranks[rank.index()];
    if (const auto* c = std::get_if<Collective>(&instruction.operation)) {
      return program_.groups[binding.groups[c->group.index()].index()].members;
    }
    if (const auto* p = std::get_if<Pull>(&instruction.operation))
      return servers(binding, p->servers);
    if (const auto* p = std::get_if<Push>(&instruction.operation))
      return servers(binding, p->servers);
    std::optional<PeerSlot> slot;
    if (const auto* p = std::get_if<Send>(&instruction.operation)) slot = p->peer;
    if (const auto* p = std::get_if<Receive>(&instruction.operation)) slot = p->peer;
    if (const auto* p = std::get_if<ServePull>(&instruction.operation)) slot = p->worker;
    if (const auto* p = std::get_if<ServePush>(&instruction.operation)) slot = p->worker;
    if (!slot) return {};
    return {binding.peers[slot->index()]};
  }

  void report_stuck() {
    std::optional<Blocked> first;
    for (const Rank rank : ranks_) {
      for (std::size_t s = 0; s < kStreams && !first; ++s) {
        if (head(rank, s) != nullptr) first = Blocked{rank, s};
      }
    }
    if (!first) return;
    std::string chain;
    std::set<Blocked> seen;
    std::optional<Blocked> at = first;
    while (at && seen.insert(*at).second) {
      chain += (chain.empty() ? "" : " waits for ") +
               name(at->first, head(at->first, at->second)->place);
      at = blocker(*at);
    }
    if (at)
      chain += " waits for " + name(at->first, head(at->first, at->second)->place) + ": a circle";
    else
      chain += ", whose other side never comes";
    faults_.push_back("nobody can go on: " + chain);
  }

  const Program& program_;
  const std::vector<Rank>& ranks_;
  std::vector<bool> played_;       ///< By rank.
  std::vector<RoleOrder> orders_;  ///< By role.
  std::vector<State> state_;       ///< By rank.
  std::deque<Rank> queue_;
  std::vector<std::size_t>
      expected_;  ///< Members of each group that are played; 0: not counted yet.
  std::map<MeetingKey, std::vector<Party>> meetings_;
  std::map<PairKey, std::deque<Party>> givers_, takers_;
  std::vector<std::string> faults_;
};

}  // namespace

std::vector<std::string> check_rendezvous(const Program& program, const std::vector<Rank>& ranks) {
  return Player(program, ranks).play();
}

}  // namespace orrery::core
