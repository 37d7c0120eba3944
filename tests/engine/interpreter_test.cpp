// Small programs made by hand: what the interpreter does with streams, waits and views.

#include <gtest/gtest.h>

#include "core/program.h"
#include "engine/buffer_pool.h"
#include "engine/execute.h"
#include "engine/rank_interpreter.h"
#include "engine/rank_program.h"
#include "tests/engine/ranks.h"

namespace orrery::engine {
namespace {

using core::BufferId;
using core::BufferKind;
using core::BufferScope;
using core::DType;
using core::GroupSlot;
using core::Instruction;
using core::Stream;
using core::View;

BufferId buffer(core::Role& role, const char* name, std::int64_t count, BufferScope scope,
                DType dtype = DType::Float32) {
  role.buffers.push_back({name, dtype, {count}, BufferKind::Workspace, scope});
  return BufferId(role.buffers.size() - 1);
}

Instruction zero(BufferId id, std::int64_t count) {
  Instruction instruction;
  instruction.label = "zero";
  instruction.operation = core::Compute{core::Zero{count}, {}};
  instruction.writes = {{id, 0, count, std::nullopt}};
  return instruction;
}

// out = a + b, all of `count` elements.
Instruction add(BufferId a, BufferId b, BufferId out, std::int64_t count) {
  Instruction instruction;
  instruction.label = "add";
  instruction.operation = core::Compute{core::Add{1, count, false}, {}};
  instruction.reads = {{a, 0, count, std::nullopt}, {b, 0, count, std::nullopt}};
  instruction.writes = {{out, 0, count, std::nullopt}};
  return instruction;
}

core::Program one_role(core::Role role, int ranks) {
  core::Program program;
  core::Group world;
  for (int r = 0; r < ranks; ++r) world.members.emplace_back(r);
  program.groups.push_back(world);
  role.group_slots = {core::GroupKind::World};
  program.roles.push_back(std::move(role));
  for (int r = 0; r < ranks; ++r) {
    core::RankBinding binding;
    binding.groups = {core::GroupId(0)};
    program.ranks.push_back(binding);
  }
  program.microbatches = 1;
  return program;
}

float& element(const RankInterpreter& interpreter, BufferId id, std::size_t i) {
  return reinterpret_cast<float*>(interpreter.run_buffer(id))[i];
}

// A microbatch's instance lives from its first write to the instruction that frees it; another
// microbatch has its own, and memory is taken again.
TEST(Interpreter, InstancesLiveFromWriteToFree) {
  core::Role role;
  const BufferId t = buffer(role, "t", 1000, BufferScope::Microbatch);
  const BufferId x = buffer(role, "x", 1000, BufferScope::Run);
  Instruction use = add(t, x, x, 1000);
  use.frees = {t};
  role.blocks = {{"write", {zero(t, 1000)}}, {"use", {use}}};
  role.step = {{core::BlockId(0), 0, {}},
               {core::BlockId(0), 1, {}},
               {core::BlockId(1), 0, {}},
               {core::BlockId(1), 1, {}}};
  const core::Program program = one_role(role, 1);
  const core::Job job;
  on_ranks(1, [&](Communicator& c) {
    RankInterpreter interpreter(program, job, c.rank(), c, {.poison = true});
    for (int step = 0; step < 3; ++step) interpreter.run_step(step, false);
    EXPECT_EQ(interpreter.pool().live_bytes(), 4000);
    EXPECT_EQ(interpreter.pool().peak_bytes(), 3 * 4000);
    EXPECT_EQ(element(interpreter, x, 999), 0.0F);
  });
}

// A slice is the p-th of n equal parts: reduce-scatter, then all-gather, is an all-reduce.
TEST(Interpreter, SlicesFollowTheGroupsPosition) {
  core::Role role;
  const BufferId x = buffer(role, "x", 6, BufferScope::Run);
  const View whole{x, 0, 6, std::nullopt};
  const View slice{x, 0, 6, GroupSlot(0)};
  Instruction scatter;
  scatter.operation = core::Collective{core::CollectiveKind::ReduceScatter, GroupSlot(0),
                                       core::Reduction::Sum, core::Bytes(24)};
  scatter.stream = Stream::Data;
  scatter.reads = {whole};
  scatter.writes = {slice};
  Instruction gather = scatter;
  gather.operation = core::Collective{core::CollectiveKind::AllGather, GroupSlot(0),
                                      core::Reduction::Sum, core::Bytes(24)};
  gather.reads = {slice};
  gather.writes = {whole};
  role.blocks = {{"b", {scatter, gather}}};
  role.step = {{core::BlockId(0), std::nullopt, {}}};
  const core::Program program = one_role(role, 3);
  const core::Job job;
  on_ranks(3, [&](Communicator& c) {
    RankInterpreter interpreter(program, job, c.rank(), c, {});
    for (std::size_t i = 0; i < 6; ++i) {
      element(interpreter, x, i) = static_cast<float>(c.rank().value * 10) + static_cast<float>(i);
    }
    interpreter.run_step(0, false);
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(element(interpreter, x, i), 30.0F + 3.0F * static_cast<float>(i));
    }
  });
}

// One stream's head waits for another stream's instruction: with random delays the order of the
// dependency still holds. x = 0 on the host stream, then x = x + y on the compute stream.
TEST(Interpreter, WaitsHoldAcrossStreams) {
  core::Role role;
  const BufferId x = buffer(role, "x", 1, BufferScope::Run);
  const BufferId y = buffer(role, "y", 1, BufferScope::Run);
  Instruction clear = zero(x, 1);
  clear.stream = Stream::Host;
  Instruction sum = add(x, y, x, 1);
  sum.waits = {0};
  role.blocks = {{"b", {clear, sum}}};
  role.step = {{core::BlockId(0), std::nullopt, {}}, {core::BlockId(0), std::nullopt, {{0, 0, 1}}}};
  const core::Program program = one_role(role, 1);
  const core::Job job;
  on_ranks(1, [&](Communicator& c) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      RankInterpreter interpreter(program, job, c.rank(), c, {.delay_seed = seed});
      element(interpreter, x, 0) = 5.0F;
      element(interpreter, y, 0) = 1.0F;
      interpreter.run_step(0, false);
      EXPECT_EQ(element(interpreter, x, 0), 1.0F);
    }
  });
}

// A neighbour exchange in which everybody sends first: nobody waits in a circle.
TEST(Interpreter, ARingOfSendsDoesNotDeadlock) {
  core::Role role;
  const BufferId out = buffer(role, "out", 100'000, BufferScope::Run);
  const BufferId in = buffer(role, "in", 100'000, BufferScope::Run);
  Instruction send;
  send.operation = core::Send{core::PeerSlot(0), core::Channel::Activation, core::Bytes(4e5)};
  send.stream = Stream::SendActivation;
  send.reads = {{out, 0, 100'000, std::nullopt}};
  Instruction receive;
  receive.operation = core::Receive{core::PeerSlot(1), core::Channel::Activation, core::Bytes(4e5)};
  receive.stream = Stream::ReceiveActivation;
  receive.writes = {{in, 0, 100'000, std::nullopt}};
  role.peer_slots = 2;
  role.blocks = {{"b", {send, receive}}};
  role.step = {{core::BlockId(0), std::nullopt, {}}};
  core::Program program = one_role(role, 4);
  for (int r = 0; r < 4; ++r) {
    program.ranks[static_cast<std::size_t>(r)].peers = {core::Rank((r + 1) % 4),
                                                        core::Rank((r + 3) % 4)};
  }
  const core::Job job;
  on_ranks(4, [&](Communicator& c) {
    RankInterpreter interpreter(program, job, c.rank(), c, {});
    element(interpreter, out, 99'999) = static_cast<float>(c.rank().value);
    for (int step = 0; step < 10; ++step) interpreter.run_step(step, false);
    EXPECT_EQ(element(interpreter, in, 99'999), static_cast<float>((c.rank().value + 3) % 4));
  });
}

}  // namespace
}  // namespace orrery::engine
