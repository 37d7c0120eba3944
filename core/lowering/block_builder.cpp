#include "core/lowering/block_builder.h"

#include <utility>

#include "core/error.h"

namespace orrery::core {
namespace {

Stream send_stream(Channel channel) {
  switch (channel) {
    case Channel::Activation:
      return Stream::SendActivation;
    case Channel::Gradient:
      return Stream::SendGradient;
    case Channel::Context:
      return Stream::SendContext;
  }
  ORRERY_CHECK(false, "unknown Channel");
}

Stream receive_stream(Channel channel) {
  switch (channel) {
    case Channel::Activation:
      return Stream::ReceiveActivation;
    case Channel::Gradient:
      return Stream::ReceiveGradient;
    case Channel::Context:
      return Stream::ReceiveContext;
  }
  ORRERY_CHECK(false, "unknown Channel");
}

}  // namespace

View whole(const Role& role, BufferId buffer) {
  return {buffer, 0, role.buffers[buffer.index()].elements(), std::nullopt};
}

BufferId add_buffer(Role& role, Buffer buffer) {
  role.buffers.push_back(std::move(buffer));
  return BufferId(role.buffers.size() - 1);
}

BlockBuilder::BlockBuilder(const Role& role, std::string name, int element_bytes)
    : role_(role), element_bytes_(element_bytes) {
  block_.name = std::move(name);
}

Bytes BlockBuilder::bytes_of(const View& view) const {
  return Bytes(static_cast<double>(view.count) *
               dtype_bytes(role_.buffers[view.buffer.index()].dtype));
}

void BlockBuilder::add(Instruction instruction) {
  instruction.pass = pass_;
  block_.instructions.push_back(std::move(instruction));
}

void BlockBuilder::compute(std::string label, Operator op, std::vector<View> reads,
                           std::vector<View> writes, Stream stream) {
  Instruction instruction;
  instruction.label = std::move(label);
  instruction.operation = Compute{op, work_of(op, element_bytes_)};
  instruction.stream = stream;
  instruction.reads = std::move(reads);
  instruction.writes = std::move(writes);
  add(std::move(instruction));
}

void BlockBuilder::collective(std::string label, CollectiveKind kind, GroupSlot group,
                              const View& view, Stream stream, Reduction reduction) {
  View slice = view;
  slice.slice = group;
  Instruction instruction;
  instruction.label = std::move(label);
  instruction.operation = Collective{kind, group, reduction, bytes_of(view)};
  instruction.stream = stream;
  instruction.reads = {kind == CollectiveKind::AllGather ? slice : view};
  instruction.writes = {kind == CollectiveKind::ReduceScatter ? slice : view};
  add(std::move(instruction));
}

void BlockBuilder::gather(std::string label, GroupSlot group, const View& part, const View& all,
                          Stream stream) {
  Instruction instruction;
  instruction.label = std::move(label);
  instruction.operation =
      Collective{CollectiveKind::AllGather, group, Reduction::Sum, bytes_of(all)};
  instruction.stream = stream;
  instruction.reads = {part};
  instruction.writes = {all};
  add(std::move(instruction));
}

void BlockBuilder::exchange(std::string label, GroupSlot group, const View& from, const View& to,
                            Stream stream) {
  Instruction instruction;
  instruction.label = std::move(label);
  instruction.operation =
      Collective{CollectiveKind::AllToAll, group, Reduction::Sum, bytes_of(from)};
  instruction.stream = stream;
  instruction.reads = {from};
  instruction.writes = {to};
  add(std::move(instruction));
}

void BlockBuilder::scatter(std::string label, GroupSlot group, const View& all, const View& part,
                           Stream stream) {
  Instruction instruction;
  instruction.label = std::move(label);
  instruction.operation =
      Collective{CollectiveKind::ReduceScatter, group, Reduction::Sum, bytes_of(all)};
  instruction.stream = stream;
  instruction.reads = {all};
  instruction.writes = {part};
  add(std::move(instruction));
}

void BlockBuilder::send(std::string label, PeerSlot peer, Channel channel, BufferId buffer) {
  Instruction instruction;
  instruction.label = std::move(label);
  instruction.reads = {whole(role_, buffer)};
  instruction.operation = Send{peer, channel, bytes_of(instruction.reads[0])};
  instruction.stream = send_stream(channel);
  add(std::move(instruction));
}

void BlockBuilder::receive(std::string label, PeerSlot peer, Channel channel, BufferId buffer) {
  Instruction instruction;
  instruction.label = std::move(label);
  instruction.writes = {whole(role_, buffer)};
  instruction.operation = Receive{peer, channel, bytes_of(instruction.writes[0])};
  instruction.stream = receive_stream(channel);
  add(std::move(instruction));
}

}  // namespace orrery::core
