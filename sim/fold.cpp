#include "sim/fold.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "core/network/collective_algorithm.h"
#include "sim/communication.h"

namespace orrery::sim {

using core::Block;
using core::GroupId;
using core::Instruction;
using core::PeerSlot;
using core::Program;
using core::Rank;
using core::RankBinding;
using core::Role;

namespace {

template <class Predicate>
bool any_instruction(const Role& role, Predicate predicate) {
  return std::any_of(role.blocks.begin(), role.blocks.end(), [&](const Block& block) {
    return std::any_of(block.instructions.begin(), block.instructions.end(), predicate);
  });
}

}  // namespace

bool uses_servers(const Program& program) {
  const auto reactive = [](const Instruction& i) {
    return std::holds_alternative<core::Pull>(i.operation) ||
           std::holds_alternative<core::Push>(i.operation) ||
           std::holds_alternative<core::ServePull>(i.operation) ||
           std::holds_alternative<core::ServePush>(i.operation);
  };
  return std::any_of(program.roles.begin(), program.roles.end(),
                     [&](const Role& role) { return any_instruction(role, reactive); });
}

namespace {

/// The peer that a role's ranks send keys and values to; absent where it has no ring.
std::optional<PeerSlot> next_in_ring(const Role& role) {
  std::optional<PeerSlot> next;
  any_instruction(role, [&](const Instruction& i) {
    const auto* send = std::get_if<core::Send>(&i.operation);
    if (send == nullptr || send->channel != core::Channel::Context) return false;
    next = send->peer;
    return true;
  });
  return next;
}

}  // namespace

std::vector<std::size_t> ring_places(const Program& program) {
  std::vector<bool> rings;
  for (const Role& role : program.roles) rings.push_back(next_in_ring(role).has_value());
  std::map<std::pair<core::RoleId, int>, std::size_t> numbers;
  std::vector<std::size_t> classes;
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    const RankBinding& binding = program.ranks[r];
    const auto& slot = program.roles[binding.role.index()].context_group;
    int position = 0;
    if (rings[binding.role.index()] && slot) {
      const GroupId group = binding.groups[slot->index()];
      position = core::position_in(program.groups[group.index()], Rank(r));
    }
    classes.push_back(numbers.try_emplace({binding.role, position}, numbers.size()).first->second);
  }
  return classes;
}

namespace {

/// Chooses a rank of each class by walking from a rank to its peers and to the members of its groups.
class Chooser {
 public:
  Chooser(const Program& program, std::vector<std::size_t> classes)
      : program_(program),
        class_(std::move(classes)),
        chosen_(*std::max_element(class_.begin(), class_.end()) + 1) {}

  std::vector<Rank> choose() {
    for (std::size_t r = 0; r < program_.ranks.size(); ++r) {
      take(Rank(r));
      for (; walked_ < order_.size(); ++walked_) walk(order_[walked_]);
    }
    return order_;
  }

  std::size_t class_of(Rank rank) const { return class_[rank.index()]; }
  bool is_chosen(Rank rank) const { return chosen_[class_of(rank)] == rank; }

  /// Whether every peer is chosen, and in every group one member of each class that it has.
  bool closed() const {
    std::set<GroupId> groups;
    for (const Rank rank : order_) {
      const RankBinding& binding = program_.ranks[rank.index()];
      if (!std::all_of(binding.peers.begin(), binding.peers.end(),
                       [this](Rank peer) { return is_chosen(peer); })) {
        return false;
      }
      groups.insert(binding.groups.begin(), binding.groups.end());
    }
    return std::all_of(groups.begin(), groups.end(), [this](GroupId g) { return closed(g); });
  }

 private:
  bool closed(GroupId group) const {
    const std::vector<Rank>& members = program_.groups[group.index()].members;
    if (members.size() == program_.ranks.size()) return true;
    std::set<std::size_t> present, missing;
    for (const Rank member : members) {
      (is_chosen(member) ? present : missing).insert(class_of(member));
    }
    return std::includes(present.begin(), present.end(), missing.begin(), missing.end());
  }

  void take(Rank rank) {
    std::optional<Rank>& slot = chosen_[class_of(rank)];
    if (slot) return;
    slot = rank;
    order_.push_back(rank);
  }

  void walk(Rank rank) {
    const RankBinding& binding = program_.ranks[rank.index()];
    for (const Rank peer : binding.peers) take(peer);
    for (const GroupId group : binding.groups) {
      const std::vector<Rank>& members = program_.groups[group.index()].members;
      // A group of every rank decides nothing.
      if (members.size() == program_.ranks.size()) continue;
      for (const Rank member : members) take(member);
    }
  }

  const Program& program_;
  std::vector<std::size_t> class_;           // By rank.
  std::vector<std::optional<Rank>> chosen_;  // By class.
  std::vector<Rank> order_;
  std::size_t walked_ = 0;
};

// Sums of link loads that differ by less are roundings.
constexpr double kAlike = 1e-9;

bool alike(double a, double b) { return std::abs(a - b) <= kAlike * std::max(a, b); }

/// (3) of fold.h for the messages that these ranks send along their rings, all at the same time.
bool hops_are_alike(const Program& program, const std::vector<Rank>& ranks, PeerSlot next,
                    const core::Topology& topology) {
  const auto hop = [&](Rank r) {
    return message_phase(r, program.ranks[r.index()].peers[next.index()], topology);
  };
  std::vector<core::Transfer> all;
  for (const Rank rank : ranks) {
    for (const core::Transfer& transfer : hop(rank).transfers) all.push_back(transfer);
  }
  std::map<core::LinkId, core::Bytes> loads;
  for (const core::LinkLoad& load : core::link_loads(all, topology)) loads[load.link] = load.bytes;
  struct Cost {
    double latency = 0, alone = 0, beside = 0;
  };
  const auto cost = [&](Rank rank) {
    const core::CollectivePhase phase = hop(rank);
    Cost c{phase.latency.value, core::transfer_time(phase.transfers, topology).value};
    for (const core::LinkLoad& load : core::link_loads(phase.transfers, topology)) {
      const core::Seconds time = loads.at(load.link) / topology.link(load.link).cost.bandwidth;
      c.beside = std::max(c.beside, time.value);
    }
    return c;
  };
  const Cost first = cost(ranks.front());
  return std::all_of(ranks.begin() + 1, ranks.end(), [&](Rank rank) {
    const Cost other = cost(rank);
    return alike(first.latency, other.latency) && alike(first.alone, other.alone) &&
           alike(first.beside, other.beside);
  });
}

}  // namespace

Fold every_rank(const Program& program) {
  Fold fold;
  for (std::size_t r = 0; r < program.ranks.size(); ++r) fold.simulated.emplace_back(r);
  fold.others.resize(program.ranks.size());
  return fold;
}

namespace {

/// One rank of each class; absent where they do not fit together.
std::optional<Fold> fold_by(const Program& program, std::vector<std::size_t> classes) {
  if (uses_servers(program)) return std::nullopt;
  Chooser chooser(program, std::move(classes));
  Fold fold;
  fold.simulated = chooser.choose();
  if (!chooser.closed()) return std::nullopt;
  std::sort(fold.simulated.begin(), fold.simulated.end());
  std::vector<std::size_t> place(fold.simulated.size());  // By class.
  for (std::size_t i = 0; i < fold.simulated.size(); ++i) {
    place[chooser.class_of(fold.simulated[i])] = i;
  }
  fold.others.resize(fold.simulated.size());
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    if (!chooser.is_chosen(Rank(r))) fold.others[place[chooser.class_of(Rank(r))]].emplace_back(r);
  }
  return fold;
}

}  // namespace

std::optional<Fold> folded_ranks(const Program& program, const core::Topology& topology) {
  if (!topology.levels_alone()) return std::nullopt;
  std::optional<Fold> fold = fold_by(program, ring_places(program));
  if (!fold) return std::nullopt;
  for (std::size_t i = 0; i < fold->simulated.size(); ++i) {
    const auto next = next_in_ring(program.role_of(fold->simulated[i]));
    if (!next) continue;
    std::vector<Rank> ranks = fold->others[i];
    ranks.push_back(fold->simulated[i]);
    if (!hops_are_alike(program, ranks, *next, topology)) return std::nullopt;
  }
  return fold;
}

std::optional<Fold> folded_ranks(const Program& program, Symmetry symmetry) {
  std::optional<Fold> fold = fold_by(program, symmetry.rank_class);
  if (fold) fold->symmetry = std::move(symmetry);
  return fold;
}

}  // namespace orrery::sim
