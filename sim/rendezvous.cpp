#include "sim/rendezvous.h"

#include "core/error.h"
#include "core/network/parameter_server.h"

namespace orrery::sim {

using core::Bytes;
using core::GroupId;
using core::Instruction;
using core::MeetingKind;
using core::MeetingPlace;
using core::Program;
using core::Rank;
using core::RankBinding;

namespace {

const std::vector<Rank>& servers_of(const Program& program, const RankBinding& binding,
                                    core::GroupSlot slot) {
  return program.groups[binding.groups[slot.index()].index()].members;
}

Bytes both_ways(double keys, int width) {
  const core::PullMessages messages = core::pull_messages(keys, width);
  return messages.request + messages.answer;
}

struct MovedBytes {
  const Program& program;
  const RankBinding& binding;

  double servers(core::GroupSlot slot) const {
    return static_cast<double>(servers_of(program, binding, slot).size());
  }
  Bytes operator()(const core::Compute&) const { return Bytes(0); }
  Bytes operator()(const core::Collective& c) const { return c.bytes; }
  Bytes operator()(const core::Send& s) const { return s.bytes; }
  Bytes operator()(const core::Receive& r) const { return r.bytes; }
  Bytes operator()(const core::Pull& p) const {
    return servers(p.servers) * both_ways(p.expected_keys / servers(p.servers), p.width);
  }
  Bytes operator()(const core::Push& p) const {
    return servers(p.servers) * core::push_message(p.expected_keys / servers(p.servers), p.width);
  }
  Bytes operator()(const core::ServePull& s) const { return both_ways(s.expected_keys, s.width); }
  Bytes operator()(const core::ServePush& s) const {
    return core::push_message(s.expected_keys, s.width);
  }
};

}  // namespace

Bytes moved_bytes(const Program& program, Rank rank, const Instruction& instruction) {
  return std::visit(MovedBytes{program, program.ranks[rank.index()]}, instruction.operation);
}

Communication communication_at(const MeetingPlace& place, Rank rank, const Instruction& instruction,
                               const Program& program, Communications& communications) {
  const RankBinding& binding = program.ranks[rank.index()];
  switch (place.kind) {
    case MeetingKind::Collective: {
      const auto& c = std::get<core::Collective>(instruction.operation);
      return communications.collective(GroupId(place.first), c.kind, c.bytes);
    }
    case MeetingKind::Message: {
      const auto& s = std::get<core::Send>(instruction.operation);
      return communications.message(rank, Rank(place.second), s.peer, s.bytes);
    }
    case MeetingKind::Pull: {
      const auto& p = std::get<core::Pull>(instruction.operation);
      const auto servers = servers_of(program, binding, p.servers).size();
      return communications.pull(rank, Rank(place.second),
                                 p.expected_keys / static_cast<double>(servers), p.width);
    }
    case MeetingKind::Push: {
      const auto& p = std::get<core::Push>(instruction.operation);
      const auto servers = servers_of(program, binding, p.servers).size();
      return communications.push(rank, Rank(place.second),
                                 p.expected_keys / static_cast<double>(servers), p.width);
    }
  }
  ORRERY_CHECK(false, "unknown kind of meeting");
}

}  // namespace orrery::sim
