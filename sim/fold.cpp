#include "sim/fold.h"

#include <algorithm>

namespace orrery::sim {

using core::Block;
using core::GroupId;
using core::Instruction;
using core::Program;
using core::Rank;
using core::RankBinding;
using core::Role;
using core::RoleId;

namespace {

bool uses_servers(const Program& program) {
  const auto reactive = [](const Instruction& i) {
    return std::holds_alternative<core::Pull>(i.operation) ||
           std::holds_alternative<core::Push>(i.operation) ||
           std::holds_alternative<core::ServePull>(i.operation) ||
           std::holds_alternative<core::ServePush>(i.operation);
  };
  return std::any_of(program.roles.begin(), program.roles.end(), [&](const Role& role) {
    return std::any_of(role.blocks.begin(), role.blocks.end(), [&](const Block& block) {
      return std::any_of(block.instructions.begin(), block.instructions.end(), reactive);
    });
  });
}

/// Chooses representatives by walking from a rank to its peers and to the members of its groups.
class Chooser {
 public:
  explicit Chooser(const Program& program) : program_(program), chosen_(program.roles.size()) {}

  std::vector<Rank> choose() {
    for (std::size_t r = 0; r < program_.ranks.size(); ++r) {
      take(Rank(r));
      for (; walked_ < order_.size(); ++walked_) walk(order_[walked_]);
    }
    return order_;
  }

  bool is_chosen(Rank rank) const { return chosen_[role(rank).index()] == rank; }

  /// Whether every peer is chosen, and in every group one member of each role that it has.
  bool closed(Rank rank) const {
    const RankBinding& binding = program_.ranks[rank.index()];
    for (const Rank peer : binding.peers) {
      if (!is_chosen(peer)) return false;
    }
    for (const GroupId group : binding.groups) {
      const std::vector<Rank>& members = program_.groups[group.index()].members;
      RoleId last = binding.role;  // Members of one role follow each other: ask once for each.
      for (const Rank member : members) {
        if (role(member) == last) continue;
        last = role(member);
        if (std::find(members.begin(), members.end(), *chosen_[last.index()]) == members.end()) {
          return false;
        }
      }
    }
    return true;
  }

 private:
  RoleId role(Rank rank) const { return program_.ranks[rank.index()].role; }

  void take(Rank rank) {
    std::optional<Rank>& slot = chosen_[role(rank).index()];
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
  std::vector<std::optional<Rank>> chosen_;  // By role.
  std::vector<Rank> order_;
  std::size_t walked_ = 0;
};

}  // namespace

Fold every_rank(const Program& program) {
  Fold fold;
  for (std::size_t r = 0; r < program.ranks.size(); ++r) fold.simulated.emplace_back(r);
  fold.others.resize(program.ranks.size());
  return fold;
}

std::optional<Fold> one_rank_per_role(const Program& program) {
  if (uses_servers(program)) return std::nullopt;
  Chooser chooser(program);
  Fold fold;
  fold.simulated = chooser.choose();
  for (const Rank rank : fold.simulated) {
    if (!chooser.closed(rank)) return std::nullopt;
  }
  std::sort(fold.simulated.begin(), fold.simulated.end());
  std::vector<std::size_t> place(program.roles.size());
  for (std::size_t i = 0; i < fold.simulated.size(); ++i) {
    place[program.ranks[fold.simulated[i].index()].role.index()] = i;
  }
  fold.others.resize(fold.simulated.size());
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    if (chooser.is_chosen(Rank(r))) continue;
    fold.others[place[program.ranks[r].role.index()]].emplace_back(r);
  }
  return fold;
}

}  // namespace orrery::sim
