#pragma once
// Where instructions of several ranks meet, as (4) and (5) of core/program.h say: a collective's
// members on a group's stream, a send and its receive on a channel, a worker and one server.
//
// A stream runs in order and an instruction holds it until it has ended, so at most one meeting is
// open at a place, and the k-th coming of one party is always with the k-th of the others.

#include <compare>
#include <vector>

#include "core/program.h"

namespace orrery::core {

enum class MeetingKind { Collective, Message, Pull, Push };

/// Collective: group and stream. Message: sender, receiver and channel. Pull, Push: worker and
/// server.
struct MeetingPlace {
  MeetingKind kind = MeetingKind::Collective;
  int first = 0;
  int second = 0;
  int third = 0;
  auto operator<=>(const MeetingPlace&) const = default;
};

/// The places that an instruction of `rank` comes to, all at once: none for Compute, one for each
/// server for Pull and Push, else one.
std::vector<MeetingPlace> meeting_places(const Program&, Rank, const Instruction&);

/// The ranks that must come to `place`: a group's members in its order; sender and receiver; worker
/// and server.
std::vector<Rank> parties_of(const Program&, const MeetingPlace&);

/// Whether an instruction comes as the second of two parties: a receive, or a server's side.
bool comes_second(const Operation&);

}  // namespace orrery::core
