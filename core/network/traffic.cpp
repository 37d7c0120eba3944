#include "core/network/traffic.h"

#include <map>
#include <numeric>
#include <tuple>

#include "core/network/collective_algorithm.h"

namespace orrery::core {
namespace {

/// Of one member of a group, in one collective.
struct Sent {
  Bytes within_node, between_nodes;
};

class TrafficCounter {
 public:
  TrafficCounter(const Program& program, const Topology& topology)
      : program_(program), topology_(topology) {}

  Traffic of(Rank rank) {
    Traffic traffic;
    const Role& role = program_.role_of(rank);
    std::vector<int> calls(role.blocks.size(), 0);
    for (const Call& call : role.step) ++calls[call.block.index()];
    for (std::size_t b = 0; b < role.blocks.size(); ++b) {
      for (const Instruction& instruction : role.blocks[b].instructions) {
        const Sent sent = sent_by(rank, instruction);
        const auto kind = static_cast<std::size_t>(span_kind(instruction));
        traffic.within_node[kind] += sent.within_node * calls[b];
        traffic.between_nodes[kind] += sent.between_nodes * calls[b];
      }
    }
    return traffic;
  }

 private:
  Sent sent_by(Rank rank, const Instruction& instruction) {
    const RankBinding& binding = program_.ranks[rank.index()];
    if (const auto* send = std::get_if<Send>(&instruction.operation)) {
      Sent sent;
      add(sent, rank, binding.peers[send->peer.index()], send->bytes);
      return sent;
    }
    if (const auto* collective = std::get_if<Collective>(&instruction.operation)) {
      const GroupId group = binding.groups[collective->group.index()];
      const auto& of_members = members_sent(group, collective->kind, collective->bytes);
      return of_members[static_cast<std::size_t>(
          position_in(program_.groups[group.index()], rank))];
    }
    return {};
  }

  /// By position in the group.
  const std::vector<Sent>& members_sent(GroupId group, CollectiveKind kind, Bytes bytes) {
    const auto [entry, added] = known_.try_emplace({group.value, kind, bytes});
    if (!added) return entry->second;
    const std::vector<Rank>& members = program_.groups[group.index()].members;
    entry->second.resize(members.size());
    std::map<Rank, std::size_t> position;
    for (std::size_t i = 0; i < members.size(); ++i) position[members[i]] = i;
    const CollectiveMethod method = choose_method(kind, members, bytes, topology_);
    for (const CollectivePhase& phase :
         collective_phases(method, kind, members, bytes, topology_)) {
      for (const Transfer& transfer : phase.transfers) {
        add(entry->second[position.at(transfer.from)], transfer.from, transfer.to, transfer.bytes);
      }
    }
    return entry->second;
  }

  void add(Sent& sent, Rank from, Rank to, Bytes bytes) const {
    const bool inside = topology_.node_of(from) == topology_.node_of(to);
    (inside ? sent.within_node : sent.between_nodes) += bytes;
  }

  const Program& program_;
  const Topology& topology_;
  std::map<std::tuple<int, CollectiveKind, Bytes>, std::vector<Sent>> known_;
};

}  // namespace

Traffic& Traffic::operator+=(const Traffic& other) {
  for (std::size_t k = 0; k < within_node.size(); ++k) {
    within_node[k] += other.within_node[k];
    between_nodes[k] += other.between_nodes[k];
  }
  return *this;
}

Traffic& Traffic::operator*=(double factor) {
  for (Bytes& bytes : within_node) bytes *= factor;
  for (Bytes& bytes : between_nodes) bytes *= factor;
  return *this;
}

Bytes total(const std::array<Bytes, kSpanKinds>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), Bytes(0));
}

std::vector<Traffic> step_traffic(const Program& program, const Topology& topology) {
  TrafficCounter counter(program, topology);
  std::vector<Traffic> traffic;
  traffic.reserve(program.ranks.size());
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    traffic.push_back(counter.of(Rank(static_cast<int>(r))));
  }
  return traffic;
}

Traffic mean_traffic(const Program& program, const Topology& topology) {
  Traffic mean;
  for (const Traffic& traffic : step_traffic(program, topology)) mean += traffic;
  mean *= 1.0 / static_cast<double>(program.ranks.size());
  return mean;
}

}  // namespace orrery::core
