#include "sim/deadlock.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"

namespace orrery::sim {

using core::Instruction;
using core::Program;
using core::Rank;

namespace {

/// An instruction that cannot end: the head of a stream of a rank.
struct Stuck {
  const RankState* state = nullptr;
  int flat = 0;
  bool operator==(const Stuck&) const = default;
};

class Walker {
 public:
  Walker(const Program& program, const std::vector<RankState>& states,
         const std::vector<OpenPlace>& open)
      : program_(program), states_(states), open_(open) {}

  std::string explain() {
    Stuck at = first();
    std::vector<std::string> reasons;
    for (;;) {
      const auto seen = std::find(path_.begin(), path_.end(), at);
      if (seen != path_.end()) {
        const auto begin = seen - path_.begin();
        return "the program deadlocks: " +
               fmt::format("{}", fmt::join(reasons.begin() + begin, reasons.end(), "; "));
      }
      path_.push_back(at);
      const std::optional<Stuck> next = waits_for(at);
      if (!next) {
        return fmt::format("the program deadlocks: {} waits for {}", describe(at), never_);
      }
      reasons.push_back(fmt::format("{} waits for {}", describe(at), describe(*next)));
      at = *next;
    }
  }

 private:
  Stuck first() const {
    for (const RankState& state : states_) {
      for (int s = 0; s < core::kStreams; ++s) {
        if (const auto head = state.head(static_cast<core::Stream>(s))) return {&state, *head};
      }
    }
    ORRERY_CHECK(false, "no rank is stuck");
  }

  std::string describe(const Stuck& at) const {
    const Instruction& i = at.state->schedule->at(at.flat);
    return fmt::format("rank {} step {} call {} ({}) {} {}", at.state->rank.value, at.state->step,
                       at.state->schedule->call_of(at.flat), block_name(at),
                       core::operation_name(i.operation), i.label);
  }

  const std::string& block_name(const Stuck& at) const {
    const RoleSchedule& schedule = *at.state->schedule;
    return schedule.role().blocks[schedule.call(at.flat).block.index()].name;
  }

  const RankState* state_of(Rank rank) const {
    const auto at = std::find_if(states_.begin(), states_.end(),
                                 [rank](const RankState& s) { return s.rank == rank; });
    return at == states_.end() ? nullptr : &*at;
  }

  /// What holds `at`: the head of the stream of an instruction that it awaits, of its own rank or
  /// of a party that has not come. Absent, with `never_` set, when no such instruction exists.
  std::optional<Stuck> waits_for(const Stuck& at) {
    const RankState& state = *at.state;
    const Instruction& instruction = state.schedule->at(at.flat);
    const Running& running = state.running[static_cast<std::size_t>(instruction.stream)];
    if (!running.active) {
      for (const int other : state.schedule->waits_of(at.flat)) {
        if (!state.has_ended(other)) return head_before(state, other);
      }
      never_ = "nothing";
      return std::nullopt;
    }
    for (const core::MeetingPlace& place :
         core::meeting_places(program_, state.rank, instruction)) {
      const std::optional<Rank> missing = missing_at(place);
      if (!missing) continue;
      const RankState& other = *state_of(*missing);
      if (const auto flat = next_visit(other, place)) return head_before(other, *flat);
      never_ = fmt::format("rank {}, which never comes", missing->value);
      return std::nullopt;
    }
    never_ = "nothing";
    return std::nullopt;
  }

  std::optional<Rank> missing_at(const core::MeetingPlace& place) const {
    const auto open = std::find_if(open_.begin(), open_.end(),
                                   [&](const OpenPlace& o) { return o.place == place; });
    if (open == open_.end()) return std::nullopt;
    for (const Rank party : core::parties_of(program_, place)) {
      if (state_of(party) == nullptr) continue;
      if (std::find(open->arrived.begin(), open->arrived.end(), party) == open->arrived.end()) {
        return party;
      }
    }
    return std::nullopt;
  }

  /// First instruction of this step that has not ended and comes to `place`.
  std::optional<int> next_visit(const RankState& state, const core::MeetingPlace& place) const {
    for (int flat = 0; flat < state.schedule->instructions(); ++flat) {
      if (state.has_ended(flat)) continue;
      const auto places = core::meeting_places(program_, state.rank, state.schedule->at(flat));
      if (std::find(places.begin(), places.end(), place) != places.end()) return flat;
    }
    return std::nullopt;
  }

  static Stuck head_before(const RankState& state, int flat) {
    return {&state, *state.head(state.schedule->at(flat).stream)};
  }

  const Program& program_;
  const std::vector<RankState>& states_;
  const std::vector<OpenPlace>& open_;
  std::vector<Stuck> path_;
  std::string never_;
};

}  // namespace

std::string explain_deadlock(const Program& program, const std::vector<RankState>& states,
                             const std::vector<OpenPlace>& open) {
  return Walker(program, states, open).explain();
}

}  // namespace orrery::sim
