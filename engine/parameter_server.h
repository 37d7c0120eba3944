#pragma once
// Pull, push and their serving sides as resumable state machines over point-to-point messages
// (core/program.h states the messages). Counts travel first, since only the keys' holder knows
// them.

#include <memory>

#include "core/program.h"
#include "engine/communicator.h"
#include "engine/operator_context.h"
#include "engine/running_communication.h"

namespace orrery::engine {

/// Starts a worker's or a server's side. Operands as core/program.h states them; they stay valid
/// until the communication has ended.
/// @throws SystemError where the operands do not fit.
std::unique_ptr<RunningCommunication> start_parameter_server(const core::Pull&,
                                                             const OperatorContext&, Communicator&);
std::unique_ptr<RunningCommunication> start_parameter_server(const core::Push&,
                                                             const OperatorContext&, Communicator&);
std::unique_ptr<RunningCommunication> start_parameter_server(const core::ServePull&,
                                                             const OperatorContext&, Communicator&);
std::unique_ptr<RunningCommunication> start_parameter_server(const core::ServePush&,
                                                             const OperatorContext&, Communicator&);

}  // namespace orrery::engine
