#include "core/meeting.h"

namespace orrery::core {
namespace {

struct PlacesOf {
  const Program& program;
  Rank rank;
  Stream stream;

  const RankBinding& binding() const { return program.ranks[rank.index()]; }
  int peer(PeerSlot slot) const { return binding().peers[slot.index()].value; }
  std::vector<MeetingPlace> at_servers(MeetingKind kind, GroupSlot slot) const {
    const GroupId group = binding().groups[slot.index()];
    std::vector<MeetingPlace> places;
    for (const Rank server : program.groups[group.index()].members) {
      places.push_back({kind, rank.value, server.value, 0});
    }
    return places;
  }

  std::vector<MeetingPlace> operator()(const Compute&) const { return {}; }
  std::vector<MeetingPlace> operator()(const Collective& c) const {
    const GroupId group = binding().groups[c.group.index()];
    return {{MeetingKind::Collective, group.value, static_cast<int>(stream), 0}};
  }
  std::vector<MeetingPlace> operator()(const Send& s) const {
    return {{MeetingKind::Message, rank.value, peer(s.peer), static_cast<int>(s.channel)}};
  }
  std::vector<MeetingPlace> operator()(const Receive& r) const {
    return {{MeetingKind::Message, peer(r.peer), rank.value, static_cast<int>(r.channel)}};
  }
  std::vector<MeetingPlace> operator()(const Pull& p) const {
    return at_servers(MeetingKind::Pull, p.servers);
  }
  std::vector<MeetingPlace> operator()(const Push& p) const {
    return at_servers(MeetingKind::Push, p.servers);
  }
  std::vector<MeetingPlace> operator()(const ServePull& s) const {
    return {{MeetingKind::Pull, peer(s.worker), rank.value, 0}};
  }
  std::vector<MeetingPlace> operator()(const ServePush& s) const {
    return {{MeetingKind::Push, peer(s.worker), rank.value, 0}};
  }
};

}  // namespace

std::vector<MeetingPlace> meeting_places(const Program& program, Rank rank,
                                         const Instruction& instruction) {
  return std::visit(PlacesOf{program, rank, instruction.stream}, instruction.operation);
}

std::vector<Rank> parties_of(const Program& program, const MeetingPlace& place) {
  if (place.kind == MeetingKind::Collective) {
    return program.groups[static_cast<std::size_t>(place.first)].members;
  }
  return {Rank(place.first), Rank(place.second)};
}

bool comes_second(const Operation& operation) {
  return std::holds_alternative<Receive>(operation) ||
         std::holds_alternative<ServePull>(operation) ||
         std::holds_alternative<ServePush>(operation);
}

}  // namespace orrery::core
