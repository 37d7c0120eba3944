#include "tests/sim/small_programs.h"

#include <algorithm>

namespace orrery::sim {

using core::GroupId;
using core::Instruction;
using core::PeerSlot;
using core::Rank;
using core::Seconds;
using core::Stream;

namespace {

std::string label(std::size_t index) { return "i" + std::to_string(index); }

}  // namespace

ProgramBuilder::ProgramBuilder(int ranks) {
  for (int r = 0; r < ranks; ++r) {
    core::Role role;
    role.name = "rank " + std::to_string(r);
    role.blocks.push_back({"block", {}});
    role.step.push_back({core::BlockId(0), std::nullopt, {}});
    program.roles.push_back(role);
    core::RankBinding binding;
    binding.role = core::RoleId(r);
    program.ranks.push_back(binding);
    durations.by_instruction.push_back({{}});
  }
  program.microbatches = 1;
}

int ProgramBuilder::add(int rank, Instruction i, double seconds) {
  std::vector<Instruction>& all = role(rank).blocks.front().instructions;
  i.label = label(all.size());
  all.push_back(std::move(i));
  durations.by_instruction[static_cast<std::size_t>(rank)][0].emplace_back(seconds);
  return static_cast<int>(all.size()) - 1;
}

Instruction& ProgramBuilder::instruction(int rank, int index) {
  return role(rank).blocks.front().instructions[static_cast<std::size_t>(index)];
}

int ProgramBuilder::compute(int rank, double seconds, std::vector<int> waits, Stream stream) {
  Instruction i;
  i.operation = core::Compute{core::Zero{1}, {}};
  i.stream = stream;
  i.waits = std::move(waits);
  return add(rank, i, seconds);
}

int ProgramBuilder::send(int rank, int to, core::Bytes bytes, std::vector<int> waits,
                         core::Channel channel) {
  Instruction i;
  i.operation = core::Send{peer(rank, to), channel, bytes};
  i.stream = channel == core::Channel::Activation ? Stream::SendActivation : Stream::SendGradient;
  i.waits = std::move(waits);
  return add(rank, i);
}

int ProgramBuilder::receive(int rank, int from, core::Bytes bytes, std::vector<int> waits,
                            core::Channel channel) {
  Instruction i;
  i.operation = core::Receive{peer(rank, from), channel, bytes};
  i.stream =
      channel == core::Channel::Activation ? Stream::ReceiveActivation : Stream::ReceiveGradient;
  i.waits = std::move(waits);
  return add(rank, i);
}

int ProgramBuilder::collective(int rank, core::CollectiveKind kind, GroupId group,
                               core::Bytes bytes, std::vector<int> waits, Stream stream) {
  Instruction i;
  i.operation = core::Collective{kind, slot(rank, group), core::Reduction::Sum, bytes};
  i.stream = stream;
  i.waits = std::move(waits);
  return add(rank, i);
}

GroupId ProgramBuilder::group(std::vector<int> members) {
  core::Group group;
  for (const int m : members) group.members.emplace_back(m);
  program.groups.push_back(group);
  return GroupId(program.groups.size() - 1);
}

PeerSlot ProgramBuilder::peer(int rank, int other) {
  std::vector<Rank>& peers = program.ranks[static_cast<std::size_t>(rank)].peers;
  const auto at = std::find(peers.begin(), peers.end(), Rank(other));
  if (at != peers.end()) return PeerSlot(static_cast<std::size_t>(at - peers.begin()));
  peers.emplace_back(other);
  role(rank).peer_slots = static_cast<int>(peers.size());
  return PeerSlot(peers.size() - 1);
}

core::GroupSlot ProgramBuilder::slot(int rank, GroupId group) {
  std::vector<GroupId>& groups = program.ranks[static_cast<std::size_t>(rank)].groups;
  const auto at = std::find(groups.begin(), groups.end(), group);
  if (at != groups.end()) return core::GroupSlot(static_cast<std::size_t>(at - groups.begin()));
  groups.push_back(group);
  role(rank).group_slots.push_back(core::GroupKind::World);
  return core::GroupSlot(groups.size() - 1);
}

core::Cluster star(int nodes, Seconds hop, core::BytesPerSecond bandwidth) {
  core::NodeType type;
  type.name = "host";
  type.devices = 1;
  type.device_link = {Seconds(0), bandwidth};
  type.network_cards = 1;
  type.network_card = {Seconds(0), bandwidth};
  core::Cluster cluster;
  cluster.name = "star";
  cluster.groups = {{type, nodes}};
  cluster.network.kind = core::NetworkKind::Star;
  cluster.network.hop_latency = hop;
  return cluster;
}

core::Cluster one_node(int devices, core::LinkCost link) {
  core::NodeType type;
  type.name = "node";
  type.devices = devices;
  type.device_link = link;
  core::Cluster cluster;
  cluster.name = "one node";
  cluster.groups = {{type, 1}};
  return cluster;
}

}  // namespace orrery::sim
