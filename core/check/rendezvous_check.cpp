#include "core/check/rendezvous_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/access_order.h"
#include "core/flat_step.h"
#include "core/meeting.h"

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
  const FlatStep step(role);
  RoleOrder order;
  std::vector<Clock> ended;  // Communications ended once an instruction has.
  std::array<Clock, kStreams> stream_clock{};
  for (int flat = 0; flat < step.instructions(); ++flat) {
    const Instruction& instruction = step.at(flat);
    const auto stream = static_cast<std::size_t>(instruction.stream);
    Clock clock = stream_clock[stream];
    for (const int wait : step.waits_of(flat)) join(clock, ended[static_cast<std::size_t>(wait)]);
    if (!std::holds_alternative<Compute>(instruction.operation)) {
      order[stream].push_back({{step.call_of(flat), step.index_of(flat)}, clock});
      clock[stream] = static_cast<int>(order[stream].size());
    }
    stream_clock[stream] = clock;
    ended.push_back(clock);
  }
  return order;
}

/// One party of a meeting: which rank's stream holds it, and what it brings.
struct Party {
  Rank rank;
  std::size_t stream = 0;
  const Instruction* instruction = nullptr;
};

/// What all parties of a meeting must agree on, in words; empty where sizes are known only at run
/// time.
struct Brought {
  std::string operator()(const Collective& c) const {
    return fmt::format("{} of {} B", collective_name(c.kind), c.bytes.value);
  }
  std::string operator()(const Send& s) const { return fmt::format("{} B", s.bytes.value); }
  std::string operator()(const Receive& r) const { return fmt::format("{} B", r.bytes.value); }
  template <class Other>
  std::string operator()(const Other&) const {
    return "";
  }
};
std::string brought(const Party& party) {
  return std::visit(Brought{}, party.instruction->operation);
}

class Player {
 public:
  Player(const Program& program, const std::vector<Rank>& ranks)
      : program_(program),
        ranks_(ranks),
        played_(program.ranks.size(), false),
        state_(program.ranks.size()),
        queue_(ranks.begin(), ranks.end()) {
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
    State& state = state_[rank.index()];
    state.joined[stream] = true;
    const std::vector<MeetingPlace> places = meeting_places(program_, rank, instruction);
    state.missing[stream] = static_cast<int>(places.size());
    for (const MeetingPlace& place : places) come(place, {rank, stream, &instruction});
  }

  /// Parties of a place that are played.
  std::size_t expected_at(const MeetingPlace& place) {
    const auto [known, added] = expected_.try_emplace(place, 0);
    if (added) {
      const std::vector<Rank> parties = parties_of(program_, place);
      known->second = static_cast<std::size_t>(std::count_if(
          parties.begin(), parties.end(), [&](Rank party) { return played_[party.index()]; }));
    }
    return known->second;
  }

  void come(const MeetingPlace& place, const Party& party) {
    std::vector<Party>& here = here_[place];
    here.push_back(party);
    if (here.size() < expected_at(place)) return;
    const std::vector<Party> met = std::move(here);
    here_.erase(place);
    for (const Party& other : met) {
      if (brought(other) != brought(party)) {
        faults_.push_back(fmt::format("{}: rank {} brings {} but rank {} brings {}",
                                      place_name(place), other.rank.value, brought(other),
                                      party.rank.value, brought(party)));
      }
    }
    for (const Party& other : met) one_less(other.rank, other.stream);
  }

  std::string place_name(const MeetingPlace& place) const {
    if (place.kind != MeetingKind::Collective) {
      return fmt::format("message from rank {} to rank {}", place.first, place.second);
    }
    const Group& group = program_.groups[static_cast<std::size_t>(place.first)];
    return fmt::format("{} group of rank {}", group_kind_name(group.kind),
                       group.members.front().value);
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
    std::vector<Rank> partners;
    for (const MeetingPlace& place : meeting_places(program_, rank, instruction)) {
      const std::vector<Rank> parties = parties_of(program_, place);
      partners.insert(partners.end(), parties.begin(), parties.end());
    }
    return partners;
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
  std::map<MeetingPlace, std::size_t> expected_;     ///< Played parties of the places met so far.
  std::map<MeetingPlace, std::vector<Party>> here_;  ///< Who waits there.
  std::vector<std::string> faults_;
};

}  // namespace

std::vector<std::string> check_rendezvous(const Program& program, const std::vector<Rank>& ranks) {
  return Player(program, ranks).play();
}

}  // namespace orrery::core
