#include "sim/communication.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/network/cube_mesh.h"
#include "core/network/parameter_server.h"

namespace orrery::sim {

using core::Bytes;
using core::CollectiveAlgorithm;
using core::CollectiveKind;
using core::CollectiveMethod;
using core::CollectivePhase;
using core::GroupId;
using core::LinkLoad;
using core::PeerSlot;
using core::Rank;
using core::RankBinding;
using core::Seconds;
using core::Transfer;

namespace {

using Loads = std::vector<LinkLoad>;

// Siblings whose times per byte differ by less are equally fast: roundings of sums of link loads.
constexpr double kAlike = 1e-9;

const LinkLoad& busiest(const Loads& loads, const core::Topology& topology) {
  return *std::max_element(loads.begin(), loads.end(), [&](const LinkLoad& a, const LinkLoad& b) {
    return a.bytes / topology.link(a.link).cost.bandwidth <
           b.bytes / topology.link(b.link).cost.bandwidth;
  });
}

/// Of loads in ascending order, the one of `link`; zero where it is not among them.
Bytes load_of(const Loads& loads, core::LinkId link) {
  const auto at = std::lower_bound(loads.begin(), loads.end(), link,
                                   [](const LinkLoad& l, core::LinkId id) { return l.link < id; });
  return at != loads.end() && at->link == link ? at->bytes : Bytes(0);
}

}  // namespace

CollectivePhase message_phase(Rank from, Rank to, const core::Topology& topology) {
  const int node = topology.node_of(from);
  const bool in_mesh =
      node == topology.node_of(to) && topology.fabric_of(node) == core::NodeFabric::CubeMesh;
  const Bytes wire(in_mesh ? 1.0 / core::cube_mesh_message_share() : 1.0);
  return {topology.latency(topology.route(from, to)), {{from, to, wire}}};
}

Communications::Communications(const core::Program& program, const core::Topology& healthy,
                               const core::Topology& actual, const Fold& fold,
                               std::optional<CollectiveAlgorithm> preferred)
    : program_(program),
      healthy_(healthy),
      topology_(actual),
      symmetry_(fold.symmetry),
      folded_(fold.simulated.size() < program.ranks.size()),
      alike_(fold.others),
      stand_in_(program.ranks.size()),
      simulated_(program.ranks.size(), false),
      preferred_(preferred) {
  for (std::size_t i = 0; i < alike_.size(); ++i) {
    std::vector<Rank>& ranks = alike_[i];
    ranks.insert(std::lower_bound(ranks.begin(), ranks.end(), fold.simulated[i]),
                 fold.simulated[i]);
    for (const Rank rank : ranks) stand_in_[rank.index()] = i;
    simulated_[fold.simulated[i].index()] = true;
  }
}

/// Of a link that is slow, each byte takes as much as more bytes would.
LinkUse Communications::use_of(const LinkLoad& load, double amount) const {
  const double slow =
      healthy_.link(load.link).cost.bandwidth / topology_.link(load.link).cost.bandwidth;
  return {load.link.value, load.bytes.value / amount * slow};
}

PhaseShape Communications::own_shape(const CollectivePhase& own) const {
  PhaseShape phase{own.latency, 0, {}, own.sums.value};
  const Loads loads = core::link_loads(own.transfers, topology_);
  if (loads.empty()) return phase;
  phase.amount = busiest(loads, topology_).bytes.value;
  for (const LinkLoad& load : loads) phase.uses.push_back(use_of(load, phase.amount));
  return phase;
}

/// `all` holds the transfers of `own` and of all others of its class.
PhaseShape Communications::quotient_shape(const CollectivePhase& own, const CollectivePhase& all,
                                          bool alone) const {
  PhaseShape phase{own.latency, 0, {}, own.sums.value};
  const Loads loads = core::link_loads(own.transfers, topology_);
  if (loads.empty()) return phase;
  const LinkLoad& most = busiest(loads, topology_);
  phase.amount = most.bytes.value;
  if (alone) {
    phase.uses.push_back(use_of(most, phase.amount));
    return phase;
  }
  for (const LinkLoad& load : core::link_loads(all.transfers, topology_)) {
    if (symmetry_->link_class[load.link.index()] != load.link.index()) continue;
    phase.uses.push_back(use_of(load, phase.amount));
  }
  return phase;
}

/// `all` holds the transfers of `own` and its siblings; `seen_by` are the ranks, ascending, whose links
/// other flows may share.
PhaseShape Communications::shared_shape(const CollectivePhase& own, const CollectivePhase& all,
                                        const std::vector<Rank>& seen_by) const {
  PhaseShape phase{all.latency, 0, {}, all.sums.value};
  Loads loads = core::link_loads(own.transfers, topology_);
  if (loads.empty()) return phase;
  phase.amount = busiest(loads, topology_).bytes.value;
  const Loads all_loads = core::link_loads(all.transfers, topology_);
  for (LinkLoad& load : loads) load.bytes = load_of(all_loads, load.link);
  std::vector<Transfer> seen;
  std::copy_if(own.transfers.begin(), own.transfers.end(), std::back_inserter(seen),
               [&](const Transfer& t) {
                 return std::binary_search(seen_by.begin(), seen_by.end(), t.from) ||
                        std::binary_search(seen_by.begin(), seen_by.end(), t.to);
               });
  std::set<core::LinkId> links = {busiest(loads, topology_).link};
  for (const LinkLoad& load : core::link_loads(seen, topology_)) links.insert(load.link);
  for (const core::LinkId link : links) {
    phase.uses.push_back({link.value, load_of(loads, link).value / phase.amount});
  }
  return phase;
}

const std::vector<Rank>& Communications::ranks_like(Rank rank) const {
  return alike_[stand_in_[rank.index()]];
}

/// Groups that ranks which do the same have in one slot, `group` among them.
std::vector<GroupId> Communications::siblings(GroupId group) const {
  const Rank first = program_.groups[group.index()].members.front();
  const RankBinding& binding = program_.ranks[first.index()];
  const auto slot = std::find(binding.groups.begin(), binding.groups.end(), group);
  ORRERY_CHECK(slot != binding.groups.end(), "a member does not know its group");
  const auto at = static_cast<std::size_t>(slot - binding.groups.begin());
  std::set<GroupId> groups;
  for (const Rank other : ranks_like(first))
    groups.insert(program_.ranks[other.index()].groups[at]);
  return {groups.begin(), groups.end()};
}

std::vector<GroupId> Communications::groups_like(GroupId group) const {
  if (symmetry_) return symmetry_->alike_groups[symmetry_->group_class[group.index()]];
  return folded_ ? siblings(group) : std::vector<GroupId>{group};
}

core::GroupShape Communications::shape_of(const std::vector<GroupId>& alike) const {
  core::GroupShape common{.one_node = true, .two_levels = true};
  for (const GroupId g : alike) {
    const core::GroupShape shape = core::shape_of(program_.groups[g.index()].members, topology_);
    common.one_node &= shape.one_node;
    common.two_levels &= shape.two_levels;
  }
  return common;
}

core::MethodList Communications::methods(GroupId group, CollectiveKind kind, Bytes bytes) {
  if (preferred_) {
    const std::vector<GroupId> alike = groups_like(group);
    const bool supported = std::all_of(alike.begin(), alike.end(), [&](GroupId g) {
      return core::supports(*preferred_, kind, program_.groups[g.index()].members, topology_);
    });
    if (supported) {
      core::MethodList only;
      only.add(*preferred_);
      return only;
    }
  }
  const auto [it, fresh] = shapes_.try_emplace(group);
  if (fresh) it->second = shape_of(groups_like(group));
  return core::methods_for(topology_.collectives(), kind, bytes, it->second);
}

Communications::Choice Communications::make_choice(GroupId group, CollectiveKind kind,
                                                   CollectiveMethod method) const {
  const std::vector<GroupId> alike = groups_like(group);
  // The phases for one byte, of each group.
  std::vector<std::vector<CollectivePhase>> parts;
  for (const GroupId g : alike) {
    parts.push_back(core::collective_phases(method, kind, program_.groups[g.index()].members,
                                            Bytes(1), topology_));
  }
  Choice choice = symmetry_ ? quotient_choice(alike, group, parts)
                  : folded_ ? shared_choice(alike, group, parts)
                            : own_choice(parts.front());
  if (&healthy_ == &topology_) return choice;
  // The library knows nothing of slow links.
  choice.latency = Seconds(0);
  choice.per_byte = 0;
  for (const CollectivePhase& phase : core::collective_phases(
           method, kind, program_.groups[group.index()].members, Bytes(1), healthy_)) {
    choice.latency += phase.latency;
    choice.per_byte += core::transfer_time(phase.transfers, healthy_).value + phase.sums.value;
  }
  return choice;
}

Communications::Choice Communications::own_choice(const std::vector<CollectivePhase>& own) const {
  Choice choice;
  for (const CollectivePhase& phase : own) {
    choice.phases.push_back(own_shape(phase));
    choice.latency += phase.latency;
    choice.per_byte += core::transfer_time(phase.transfers, topology_).value + phase.sums.value;
  }
  return choice;
}

Communications::Choice Communications::quotient_choice(
    const std::vector<GroupId>& alike, GroupId group,
    const std::vector<std::vector<CollectivePhase>>& parts) const {
  const auto at = std::find(alike.begin(), alike.end(), group);
  const std::vector<CollectivePhase>& own = parts[static_cast<std::size_t>(at - alike.begin())];
  Choice choice = own_choice(own);
  const std::vector<CollectivePhase> all = core::together(parts);
  choice.phases.clear();
  for (std::size_t i = 0; i < own.size(); ++i) {
    choice.phases.push_back(quotient_shape(own[i], all[i], symmetry_->alone[group.index()]));
  }
  return choice;
}

Communications::Choice Communications::shared_choice(
    const std::vector<GroupId>& alike, GroupId group,
    const std::vector<std::vector<CollectivePhase>>& parts) const {
  // The slowest sibling stands for all; `group` itself where none is slower.
  const auto at = std::find(alike.begin(), alike.end(), group);
  auto slowest = static_cast<std::size_t>(at - alike.begin());
  Choice choice = own_choice(parts[slowest]);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Choice other = own_choice(parts[i]);
    if (other.per_byte <= choice.per_byte * (1 + kAlike)) continue;
    choice = std::move(other);
    slowest = i;
  }
  const std::vector<CollectivePhase> all = core::together(parts);
  // The simulated members' places in the slowest sibling.
  const std::vector<Rank>& members = program_.groups[group.index()].members;
  const std::vector<Rank>& slowest_members = program_.groups[alike[slowest].index()].members;
  std::vector<Rank> seen_by;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (simulated_[members[i].index()]) seen_by.push_back(slowest_members[i]);
  }
  std::sort(seen_by.begin(), seen_by.end());
  choice.phases.clear();
  for (std::size_t i = 0; i < all.size(); ++i) {
    choice.phases.push_back(shared_shape(parts[slowest][i], all[i], seen_by));
  }
  return choice;
}

const Communications::Choice& Communications::choice(GroupId group, CollectiveKind kind,
                                                     CollectiveMethod method) {
  const auto [it, fresh] = collectives_.try_emplace({group, kind, method});
  if (fresh) it->second = make_choice(group, kind, method);
  return it->second;
}

Communication Communications::collective(GroupId group, CollectiveKind kind, Bytes bytes) {
  if (program_.groups[group.index()].members.size() < 2) return {};
  const CollectiveMethod best =
      core::fastest(methods(group, kind, bytes), [&](CollectiveMethod method) {
        const Choice& c = choice(group, kind, method);
        return c.latency.value + bytes.value * c.per_byte;
      });
  return {{&choice(group, kind, best).phases, bytes}};
}

const std::vector<PhaseShape>& Communications::route(Rank from, Rank to) {
  const auto [it, fresh] = routes_.try_emplace({from, to});
  if (fresh && from != to) it->second = {own_shape(message_phase(from, to, topology_))};
  return it->second;
}

std::vector<PhaseShape> Communications::shared_message(Rank from, PeerSlot peer) const {
  const auto phase_of = [&](Rank r) {
    return message_phase(r, program_.ranks[r.index()].peers[peer.index()], topology_);
  };
  Rank slowest = from;
  std::vector<std::vector<CollectivePhase>> parts;
  const auto time = [&](Rank r) { return core::transfer_time(phase_of(r).transfers, topology_); };
  for (const Rank other : ranks_like(from)) {
    parts.push_back({phase_of(other)});
    if (time(other) > time(slowest)) slowest = other;
  }
  return {shared_shape(phase_of(slowest), core::together(parts).front(), {slowest})};
}

std::vector<PhaseShape> Communications::quotient_message(Rank from, PeerSlot peer) const {
  const auto phase_of = [&](const MessageId& m) {
    return message_phase(m.first, program_.ranks[m.first.index()].peers[m.second.index()],
                         topology_);
  };
  std::vector<std::vector<CollectivePhase>> parts;
  for (const MessageId& m : symmetry_->alike_messages[symmetry_->message_class.at({from, peer})]) {
    parts.push_back({phase_of(m)});
  }
  return {quotient_shape(phase_of({from, peer}), core::together(parts).front(), false)};
}

Communication Communications::message(Rank from, Rank to, PeerSlot peer, Bytes bytes) {
  if (!folded_) return {{&route(from, to), bytes}};
  if (from == to) return {};
  const auto [it, fresh] = messages_.try_emplace({from, peer});
  if (fresh) it->second = symmetry_ ? quotient_message(from, peer) : shared_message(from, peer);
  return {{&it->second, bytes}};
}

Communication Communications::pull(Rank worker, Rank server, double keys, int width) {
  const core::PullMessages messages = core::pull_messages(keys, width);
  return {{&route(worker, server), messages.request}, {&route(server, worker), messages.answer}};
}

Communication Communications::push(Rank worker, Rank server, double keys, int width) {
  return {{&route(worker, server), core::push_message(keys, width)}};
}

}  // namespace orrery::sim
