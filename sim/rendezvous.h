#pragma once
// What moves when the parties of a meeting have come (core/meeting.h).

#include "core/meeting.h"
#include "core/program.h"
#include "sim/communication.h"

namespace orrery::sim {

/// Bytes that the instruction moves, as a trace shows them: a collective's buffer, a message, all
/// that a pull or push exchanges with its servers (or a server with its worker).
core::Bytes moved_bytes(const core::Program&, core::Rank, const core::Instruction&);

/// What moves when all have come to the place, told by the instruction of its first party: any
/// member of a collective, the sender of a message, the worker of a pull or push.
Communication communication_at(const core::MeetingPlace&, core::Rank, const core::Instruction&,
                               const core::Program&, Communications&);

}  // namespace orrery::sim
