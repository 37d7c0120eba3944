#pragma once
// Where instructions of several ranks meet: a collective's members on a group's stream, a send and
// its receive on a channel, a worker and one server. Streams run in order and an instruction holds
// its stream until it has ended, so at most one meeting is open at each place, and the k-th arrival
// of one party is always with the k-th of the others.

#include <compare>
#include <vector>

#include "core/program.h"
#include "sim/communication.h"

namespace orrery::sim {

enum class MeetingKind { Collective, Message, Pull, Push };

/// Names a place. Collective: group and stream. Message: sender, receiver and channel. Pull, Push:
/// worker and server.
struct Place {
  MeetingKind kind = MeetingKind::Collective;
  int first = 0;
  int second = 0;
  int third = 0;
  auto operator<=>(const Place&) const = default;
};

/// The places that an instruction of `rank` comes to, all at once: none for Compute, one for each
/// server for Pull and Push, else one.
std::vector<Place> places_of(const core::Program&, core::Rank, const core::Instruction&);

/// The ranks that must come to `place`.
std::vector<core::Rank> parties_of(const core::Program&, const Place&);

/// Bytes that the instruction moves, as a trace shows them: a collective's buffer, a message, all
/// that a pull or push exchanges with its servers (or a server with its worker).
core::Bytes moved_bytes(const core::Program&, core::Rank, const core::Instruction&);

/// What moves when all have come to the place, told by the instruction of its first party: any
/// member of a collective, the sender of a message, the worker of a pull or push.
Communication communication_at(const Place&, core::Rank, const core::Instruction&,
                               const core::Program&, Communications&);

}  // namespace orrery::sim
