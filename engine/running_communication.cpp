#include "engine/running_communication.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "engine/message_tag.h"
#include "engine/parameter_server.h"

namespace orrery::engine {

namespace {

const Operand& only(std::span<const Operand> operands, const core::Instruction& instruction) {
  if (operands.size() != 1) {
    throw core::SystemError("unsound program: " + instruction.label +
                            " must read and write one view each");
  }
  return operands.front();
}

std::size_t bytes_of(const Operand& operand) {
  return static_cast<std::size_t>(operand.count) * static_cast<std::size_t>(operand.element_bytes);
}

core::Rank peer_of(core::PeerSlot slot, const OperatorContext& context) {
  return context.program.binding->peers[slot.index()];
}

}  // namespace

void CommunicationLane::start(const core::Instruction& instruction, const OperatorContext& context,
                              Communicator& communicator) {
  std::visit([&](const auto& op) { start(op, instruction, context, communicator); },
             instruction.operation);
}

bool CommunicationLane::poll(Communicator& communicator) {
  switch (kind_) {
    case Kind::Message:
      return communicator.test(message_);
    case Kind::Collective:
      return collective_.poll(communicator);
    case Kind::Other:
      return other_->poll(communicator);
  }
  return true;
}

std::int64_t CommunicationLane::bytes_moved() const {
  return static_cast<std::int64_t>(kind_ == Kind::Other ? other_->bytes() : bytes_);
}

void CommunicationLane::start(const core::Compute&, const core::Instruction& instruction,
                              const OperatorContext&, Communicator&) {
  ORRERY_CHECK(false, "not a communication: " + instruction.label);
}

void CommunicationLane::start(const core::Collective& op, const core::Instruction& instruction,
                              const OperatorContext& context, Communicator& communicator) {
  const Operand& in = only(context.reads, instruction);
  const Operand& out = only(context.writes, instruction);
  const core::GroupId group = context.program.binding->groups[op.group.index()];
  const core::Group& members = context.program.program->groups[group.index()];
  CollectiveCall call;
  call.kind = op.kind;
  call.reduction = op.reduction;
  call.members = members.members;
  call.position = core::position_in(members, context.program.rank);
  call.tag = tag_of(group, instruction.stream);
  call.element_bytes = in.element_bytes;
  call.in = in.data;
  call.in_count = in.count;
  call.out = out.data;
  call.out_count = out.count;
  kind_ = Kind::Collective;
  bytes_ = std::max(bytes_of(in), bytes_of(out));
  collective_.start(communicator, call);
}

void CommunicationLane::start(const core::Send& op, const core::Instruction& instruction,
                              const OperatorContext& context, Communicator& communicator) {
  const Operand& message = only(context.reads, instruction);
  kind_ = Kind::Message;
  bytes_ = bytes_of(message);
  message_ = communicator.start_send(peer_of(op.peer, context), tag_of(op.channel), message.data,
                                     bytes_of(message));
}

void CommunicationLane::start(const core::Receive& op, const core::Instruction& instruction,
                              const OperatorContext& context, Communicator& communicator) {
  const Operand& message = only(context.writes, instruction);
  kind_ = Kind::Message;
  bytes_ = bytes_of(message);
  message_ = communicator.start_receive(peer_of(op.peer, context), tag_of(op.channel), message.data,
                                        bytes_of(message));
}

void CommunicationLane::start(const core::Pull& op, const core::Instruction&,
                              const OperatorContext& context, Communicator& communicator) {
  start_other(start_parameter_server(op, context, communicator));
}

void CommunicationLane::start(const core::Push& op, const core::Instruction&,
                              const OperatorContext& context, Communicator& communicator) {
  start_other(start_parameter_server(op, context, communicator));
}

void CommunicationLane::start(const core::ServePull& op, const core::Instruction&,
                              const OperatorContext& context, Communicator& communicator) {
  start_other(start_parameter_server(op, context, communicator));
}

void CommunicationLane::start(const core::ServePush& op, const core::Instruction&,
                              const OperatorContext& context, Communicator& communicator) {
  start_other(start_parameter_server(op, context, communicator));
}

void CommunicationLane::start_other(std::unique_ptr<RunningCommunication> communication) {
  kind_ = Kind::Other;
  other_ = std::move(communication);
}

}  // namespace orrery::engine
