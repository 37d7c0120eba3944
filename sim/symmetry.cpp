#include "sim/symmetry.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>
#include <unordered_set>

#include "core/error.h"
#include "core/flat_step.h"
#include "core/split_mix.h"
#include "sim/communication.h"

namespace orrery::sim {

using core::GroupId;
using core::PeerSlot;
using core::Program;
using core::Rank;
using core::Role;

namespace {

using Colour = std::uint64_t;

Colour with(Colour colour, Colour other) { return core::mix(colour ^ core::mix(other)); }

/// A number as a colour; numbers that differ by roundings alone are the same.
Colour number(double value) {
  if (value == 0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  constexpr double kSteps = 1 << 30;
  return with(static_cast<Colour>(std::llround(fraction * kSteps)),
              static_cast<Colour>(exponent + 4096));
}

/// Of a message the receiver's side: it moves when both have come and ends for both, so what one of
/// them is ordered against it is ordered against.
bool communicates(const core::Instruction& instruction) {
  return !std::holds_alternative<core::Compute>(instruction.operation) &&
         !std::holds_alternative<core::Send>(instruction.operation);
}

/// Whether each of these instructions is ordered against every other communication of the role.
bool ordered_against_all(const Role& role, const std::vector<bool>& slots) {
  const core::FlatStep step(role);
  const auto size = static_cast<std::size_t>(step.instructions());
  std::vector<std::vector<int>> before(size), after(size);
  for (int s = 0; s < core::kStreams; ++s) {
    const std::vector<int>& queue = step.queue(static_cast<core::Stream>(s));
    for (std::size_t i = 1; i < queue.size(); ++i) {
      before[static_cast<std::size_t>(queue[i])].push_back(queue[i - 1]);
    }
  }
  for (std::size_t i = 0; i < size; ++i) {
    for (const int other : step.waits_of(static_cast<int>(i))) before[i].push_back(other);
    for (const int other : before[i])
      after[static_cast<std::size_t>(other)].push_back(static_cast<int>(i));
  }
  const auto reach = [size](int from, const std::vector<std::vector<int>>& next) {
    std::vector<bool> seen(size, false);
    std::vector<int> open = {from};
    seen[static_cast<std::size_t>(from)] = true;
    while (!open.empty()) {
      const int at = open.back();
      open.pop_back();
      for (const int to : next[static_cast<std::size_t>(at)]) {
        if (seen[static_cast<std::size_t>(to)]) continue;
        seen[static_cast<std::size_t>(to)] = true;
        open.push_back(to);
      }
    }
    return seen;
  };
  for (int flat = 0; flat < step.instructions(); ++flat) {
    const auto* collective = std::get_if<core::Collective>(&step.at(flat).operation);
    if (collective == nullptr || !slots[collective->group.index()]) continue;
    const std::vector<bool> earlier = reach(flat, before);
    const std::vector<bool> later = reach(flat, after);
    for (std::size_t i = 0; i < size; ++i) {
      if (communicates(step.at(static_cast<int>(i))) && !earlier[i] && !later[i]) return false;
    }
  }
  return true;
}

/// Groups of all ranks whose collectives meet nothing on their links.
std::vector<bool> alone_groups(const Program& program) {
  std::vector<bool> alone(program.groups.size(), false);
  std::vector<std::vector<bool>> slots(program.roles.size());  // By role: those of whole groups.
  for (const core::RankBinding& binding : program.ranks) {
    auto& of_role = slots[binding.role.index()];
    of_role.resize(binding.groups.size(), false);
    for (std::size_t s = 0; s < binding.groups.size(); ++s) {
      const std::size_t g = binding.groups[s].index();
      if (program.groups[g].members.size() < program.ranks.size()) continue;
      of_role[s] = true;
      alone[g] = true;
    }
  }
  for (std::size_t r = 0; r < program.roles.size(); ++r) {
    if (!ordered_against_all(program.roles[r], slots[r])) {
      return std::vector<bool>(program.groups.size(), false);
    }
  }
  return alone;
}

/// What a role's instructions ask of its slots.
struct Asked {
  std::set<std::tuple<std::size_t, core::CollectiveKind, double>>
      collectives;              // Slot, kind, bytes.
  std::set<std::size_t> sends;  // Peer slots.
};

Asked asked_by(const Role& role) {
  Asked asked;
  for (const core::Block& block : role.blocks) {
    for (const core::Instruction& instruction : block.instructions) {
      if (const auto* c = std::get_if<core::Collective>(&instruction.operation)) {
        asked.collectives.emplace(c->group.index(), c->kind, c->bytes.value);
      } else if (const auto* s = std::get_if<core::Send>(&instruction.operation)) {
        asked.sends.insert(s->peer.index());
      }
    }
  }
  return asked;
}

class Refinement {
 public:
  Refinement(const Program& program, const std::vector<Communications*>& plans,
             const Properties& properties, bool shared)
      : program_(program),
        alone_(shared ? std::vector<bool>(program.groups.size(), false) : alone_groups(program)),
        rank_(properties.ranks),
        link_(properties.links),
        communication_(program.groups.size()) {
    for (const Role& role : program.roles) asked_.push_back(asked_by(role));
    for (std::size_t r = 0; r < rank_.size(); ++r) {
      rank_[r] = with(rank_[r], program.ranks[r].role.index());
    }
    for (std::size_t g = 0; g < program.groups.size(); ++g) {
      communication_[g] = with(1, static_cast<Colour>(program.groups[g].kind));
    }
    add_messages();
    for (std::size_t state = 0; state < plans.size(); ++state) {
      add_collectives(state, *plans[state]);
      add_ways(state, *plans[state]);
    }
  }

  Symmetry refined() {
    std::size_t before = 0;
    for (std::size_t now = colours(); now > before; now = colours()) {
      before = now;
      refine();
    }
    return symmetry();
  }

 private:
  /// A communication's load on a link.
  struct Load {
    std::size_t communication, link;
    Colour much;
  };

  std::size_t message(std::size_t i) const { return program_.groups.size() + i; }

  void add_messages() {
    for (std::size_t r = 0; r < rank_.size(); ++r) {
      const core::RankBinding& binding = program_.ranks[r];
      for (const std::size_t slot : asked_[binding.role.index()].sends) {
        if (binding.peers[slot] == Rank(r)) continue;
        messages_.push_back({Rank(r), PeerSlot(slot)});
        communication_.push_back(with(2, slot));
      }
    }
  }

  /// What `phases` put on the links, told apart by `act`.
  void add_loads(std::size_t communication, Colour act, const std::vector<PhaseShape>& phases) {
    Colour& own = communication_[communication];
    for (std::size_t i = 0; i < phases.size(); ++i) {
      const PhaseShape& phase = phases[i];
      const Colour which = with(act, i);
      own = with(with(own, which), with(number(phase.latency.value), number(phase.sums)));
      own = with(own, number(phase.amount));
      if (communication < alone_.size() && alone_[communication]) continue;
      for (const LinkUse& use : phase.uses) {
        loads_.push_back({communication, static_cast<std::size_t>(use.link),
                          with(which, number(use.weight * phase.amount))});
      }
    }
  }

  void add_collectives(std::size_t state, Communications& plan) {
    std::vector<bool> done(program_.groups.size(), false);
    for (const core::RankBinding& binding : program_.ranks) {
      std::vector<std::size_t> fresh;  // Slots of groups not met before.
      for (std::size_t s = 0; s < binding.groups.size(); ++s) {
        if (!done[binding.groups[s].index()]) fresh.push_back(s);
      }
      for (const auto& [slot, kind, bytes] : asked_[binding.role.index()].collectives) {
        if (std::find(fresh.begin(), fresh.end(), slot) == fresh.end()) continue;
        const GroupId group = binding.groups[slot];
        const Communication parts = plan.collective(group, kind, core::Bytes(bytes));
        const Colour act = with(with(state, static_cast<Colour>(kind)), number(bytes));
        for (const Part& part : parts) add_loads(group.index(), act, *part.phases);
      }
      for (const std::size_t s : fresh) done[binding.groups[s].index()] = true;
    }
  }

  void add_ways(std::size_t state, Communications& plan) {
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      const auto [from, slot] = messages_[i];
      const Rank to = program_.ranks[from.index()].peers[slot.index()];
      for (const Part& part : plan.message(from, to, slot, core::Bytes(1))) {
        add_loads(message(i), state, *part.phases);
      }
    }
  }

  std::size_t colours() const {
    std::unordered_set<Colour> seen(rank_.begin(), rank_.end());
    std::size_t count = seen.size();
    for (const auto* all : {&communication_, &link_}) {
      seen = std::unordered_set<Colour>(all->begin(), all->end());
      count += seen.size();
    }
    return count;
  }

  // Sums of mixed colours are colours of multisets.
  void refine() {
    std::vector<Colour> ranks(rank_.size(), 0), links(link_.size(), 0);
    std::vector<Colour> communications(communication_.size(), 0);
    for (const Load& load : loads_) {
      links[load.link] += with(communication_[load.communication], load.much);
      communications[load.communication] += with(link_[load.link], load.much);
    }
    for (std::size_t r = 0; r < rank_.size(); ++r) {
      const core::RankBinding& binding = program_.ranks[r];
      for (std::size_t s = 0; s < binding.groups.size(); ++s) {
        const std::size_t g = binding.groups[s].index();
        ranks[r] += with(communication_[g], 4 * s);
        communications[g] += with(rank_[r], 4 * s + 1);
      }
      for (std::size_t s = 0; s < binding.peers.size(); ++s) {
        ranks[r] += with(rank_[binding.peers[s].index()], 4 * s + 2);
      }
    }
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      const auto [from, slot] = messages_[i];
      const Rank to = program_.ranks[from.index()].peers[slot.index()];
      const Colour own = communication_[message(i)];
      ranks[from.index()] += with(own, 5);
      ranks[to.index()] += with(own, 7);
      communications[message(i)] += with(rank_[from.index()], 9) + with(rank_[to.index()], 11);
    }
    const auto take_in = [](std::vector<Colour>& own, const std::vector<Colour>& around) {
      for (std::size_t i = 0; i < own.size(); ++i) own[i] = with(own[i], around[i]);
    };
    take_in(rank_, ranks);
    take_in(link_, links);
    take_in(communication_, communications);
  }

  Symmetry symmetry() const {
    Symmetry found;
    found.alone = alone_;
    std::map<Colour, std::size_t> numbers;
    for (const Colour colour : rank_) {
      found.rank_class.push_back(numbers.try_emplace(colour, numbers.size()).first->second);
    }
    numbers.clear();
    for (std::size_t g = 0; g < alone_.size(); ++g) {
      const std::size_t which =
          numbers.try_emplace(communication_[g], numbers.size()).first->second;
      found.group_class.push_back(which);
      found.alike_groups.resize(numbers.size());
      found.alike_groups[which].emplace_back(g);
    }
    numbers.clear();
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      const std::size_t which =
          numbers.try_emplace(communication_[message(i)], numbers.size()).first->second;
      found.message_class[messages_[i]] = which;
      found.alike_messages.resize(numbers.size());
      found.alike_messages[which].push_back(messages_[i]);
    }
    std::map<Colour, std::size_t> first;
    for (std::size_t l = 0; l < link_.size(); ++l) {
      found.link_class.push_back(first.try_emplace(link_[l], l).first->second);
    }
    return found;
  }

  const Program& program_;
  std::vector<Asked> asked_;  // By role.
  std::vector<bool> alone_;   // By group.
  std::vector<Colour> rank_, link_;
  std::vector<Colour> communication_;  // Groups, then messages.
  std::vector<MessageId> messages_;
  std::vector<Load> loads_;
};

}  // namespace

Symmetry symmetry_of(const Program& program, const std::vector<Communications*>& plans,
                     const Properties& properties, bool links_are_shared_with_others) {
  return Refinement(program, plans, properties, links_are_shared_with_others).refined();
}

}  // namespace orrery::sim
