// Hand-made programs of a few ranks with schedules worked out on paper.
#include "sim/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/network/collective_algorithm.h"
#include "tests/sim/small_programs.h"

namespace orrery::sim {
namespace {

using namespace core::literals;
using core::Bytes;
using core::CollectiveKind;
using core::Rank;
using core::Seconds;
using core::Span;
using core::Stream;
using core::Trace;
using ::testing::HasSubstr;

// α = 2 s in all, β = 10 B/s: slow enough to count on fingers.
core::Cluster slow_star(int nodes) { return star(nodes, Seconds(1), core::BytesPerSecond(10)); }

const Span& span_of(const Trace& trace, int rank, int index, int step = 0, int call = 0) {
  for (const Span& span : trace.spans) {
    if (trace.lanes[static_cast<std::size_t>(span.lane)].rank == Rank(rank) &&
        span.instruction == core::InstructionRef{step, call, index}) {
      return span;
    }
  }
  throw std::out_of_range("no such span");
}

void expect_span(const Span& span, double start, double transfer, double end) {
  EXPECT_DOUBLE_EQ(span.start.value, start);
  EXPECT_DOUBLE_EQ(span.transfer.value, transfer);
  EXPECT_DOUBLE_EQ(span.end.value, end);
}

TEST(Simulate, AStreamRunsOneInstructionAfterAnother) {
  ProgramBuilder b(1);
  b.compute(0, 2);
  b.compute(0, 3);
  const Trace trace = simulate(b.program, b.durations, slow_star(1));
  expect_span(span_of(trace, 0, 0), 0, 0, 2);
  expect_span(span_of(trace, 0, 1), 2, 2, 5);
  EXPECT_DOUBLE_EQ(trace.steps.front().end.value, 5);
}

// The host issues in 3, 1 and 1 s. The first starts at 3; the second is issued at 4 while the first
// runs to 8; the third, of 1 s, follows at 10. The second call's host begins when its first
// instruction could start, at 11, so that one starts at 14 and the last ends at 14 + 5 + 2 + 1.
TEST(Simulate, NothingStartsBeforeTheHostIssuedIt) {
  ProgramBuilder b(1);
  b.compute(0, 5);
  b.compute(0, 2);
  b.compute(0, 1);
  b.durations.issue = {{{Seconds(3), Seconds(1), Seconds(1)}}};
  b.role(0).step.push_back(b.role(0).step.front());
  const Trace trace = simulate(b.program, b.durations, slow_star(1));
  expect_span(span_of(trace, 0, 0), 3, 3, 8);
  expect_span(span_of(trace, 0, 1), 8, 8, 10);
  expect_span(span_of(trace, 0, 2), 10, 10, 11);
  expect_span(span_of(trace, 0, 0, 0, 1), 14, 14, 19);
  EXPECT_DOUBLE_EQ(trace.steps.front().end.value, 22);
}

// Issued in 1, 4, 1 and 1 s: at 1, 5, 6 and 7. The device waits for the second; collectives of other
// streams are issued in their turn too, but what takes the host no time in time.
TEST(Simulate, AHostThatIsSlowHoldsTheDeviceUp) {
  ProgramBuilder b(1);
  b.compute(0, 1);
  b.compute(0, 1);
  b.compute(0, 1, {}, Stream::Tensor);
  b.compute(0, 1, {}, Stream::Gather);
  b.compute(0, 1, {}, Stream::ReceiveContext);
  b.durations.issue = {{{Seconds(1), Seconds(4), Seconds(1), Seconds(1), Seconds(0)}}};
  const Trace trace = simulate(b.program, b.durations, slow_star(1));
  expect_span(span_of(trace, 0, 0), 1, 1, 2);
  expect_span(span_of(trace, 0, 1), 5, 5, 6);
  expect_span(span_of(trace, 0, 2), 6, 6, 7);
  expect_span(span_of(trace, 0, 3), 7, 7, 8);
  expect_span(span_of(trace, 0, 4), 0, 0, 1);
}

// The first call's two instructions are issued at 1 and 4. The gather of the second call, its first
// instruction, could start at 0: the host comes to it after the first call, at 5, and to the compute
// at 6. The first call's second instruction is still not before 4.
TEST(Simulate, AHostRunsAheadIntoTheNextCallButNotBackwards) {
  ProgramBuilder b(1);
  b.compute(0, 1);
  b.compute(0, 1);
  b.role(0).blocks.push_back({"next", {}});
  core::Instruction gather = b.instruction(0, 0);
  gather.stream = Stream::Gather;
  b.role(0).blocks[1].instructions = {gather, b.instruction(0, 0)};
  b.role(0).step.push_back({core::BlockId(1), std::nullopt, {}});
  b.durations.by_instruction[0].push_back({Seconds(1), Seconds(1)});
  b.durations.issue = {{{Seconds(1), Seconds(3)}, {Seconds(1), Seconds(1)}}};
  const Trace trace = simulate(b.program, b.durations, slow_star(1));
  expect_span(span_of(trace, 0, 0), 1, 1, 2);
  expect_span(span_of(trace, 0, 1), 4, 4, 5);
  expect_span(span_of(trace, 0, 0, 0, 1), 5, 5, 6);
  expect_span(span_of(trace, 0, 1, 0, 1), 6, 6, 7);
}

// Host: 4 s. Compute waits for it; a third instruction on another stream does not.
TEST(Simulate, WaitsOrderStreams) {
  ProgramBuilder b(1);
  const int load = b.compute(0, 4, {}, Stream::Host);
  b.compute(0, 1, {load});
  b.compute(0, 2, {}, Stream::Data);
  const Trace trace = simulate(b.program, b.durations, slow_star(1));
  expect_span(span_of(trace, 0, 1), 4, 4, 5);
  expect_span(span_of(trace, 0, 2), 0, 0, 2);
}

// Second call: its Data instruction waits for the first call's compute (ends at 3), the compute of
// the second call follows on its stream.
TEST(Simulate, WaitsAcrossCalls) {
  ProgramBuilder b(1);
  const int compute = b.compute(0, 3);
  const int data = b.compute(0, 1, {}, Stream::Data);
  b.role(0).step.push_back({core::BlockId(0), std::nullopt, {{data, 0, compute}}});
  const Trace trace = simulate(b.program, b.durations, slow_star(1));
  expect_span(span_of(trace, 0, data, 0, 0), 0, 0, 1);
  expect_span(span_of(trace, 0, data, 0, 1), 3, 3, 4);
  expect_span(span_of(trace, 0, compute, 0, 1), 3, 3, 6);
}

// Rank 0 computes 5 s, then sends 30 B; rank 1 receives from 0 s on, then computes 1 s.
// The message moves from 5 s to 5 + α + 30/10 = 10 s.
TEST(Simulate, AMessageIsARendezvous) {
  ProgramBuilder b(2);
  const int work = b.compute(0, 5);
  const int send = b.send(0, 1, Bytes(30), {work});
  const int receive = b.receive(1, 0, Bytes(30));
  const int after = b.compute(1, 1, {receive});
  const Trace trace = simulate(b.program, b.durations, slow_star(2));
  expect_span(span_of(trace, 0, send), 5, 5, 10);
  expect_span(span_of(trace, 1, receive), 0, 5, 10);
  expect_span(span_of(trace, 1, after), 10, 10, 11);
  EXPECT_DOUBLE_EQ(span_of(trace, 1, receive).bytes.value, 30);
  ASSERT_EQ(trace.flows.size(), 1u);
}

// Ranks start an all-reduce of 20 B at 1, 2 and 6 s. Ring of 3: 2·2·α + 2·2/3·20/10 = 8 + 8/3;
// tree: height 1, 2·α + the root's 4 half-buffers... the ring's 10.67 s against the tree's 2·2 +
// 2·20/10 = 8 s: the tree is taken, so it ends at 6 + 8 = 14 s.
TEST(Simulate, ACollectiveStartsWithItsLastMember) {
  ProgramBuilder b(3);
  const core::GroupId group = b.group({0, 1, 2});
  int index = 0;
  for (const int r : {0, 1, 2}) {
    const int work = b.compute(r, std::vector<double>{1, 2, 6}[static_cast<std::size_t>(r)]);
    index = b.collective(r, CollectiveKind::AllReduce, group, Bytes(20), {work});
  }
  const core::Cluster cluster = slow_star(3);
  const core::Topology topology(cluster);
  const std::vector<Rank> members = b.program.groups[0].members;
  const double time =
      core::uncontended_time(
          core::collective_phases(
              core::choose_method(CollectiveKind::AllReduce, members, Bytes(20), topology),
              CollectiveKind::AllReduce, members, Bytes(20), topology),
          topology)
          .value;
  const Trace trace = simulate(b.program, b.durations, cluster);
  for (const int r : {0, 1, 2}) {
    expect_span(span_of(trace, r, index), std::vector<double>{1, 2, 6}[static_cast<std::size_t>(r)],
                6, 6 + time);
  }
}

// Two messages leave rank 0 over its only card at once: 30 B to rank 1 and 60 B to rank 2 share
// 10 B/s after α = 2 s: 5 B/s each until 8 s, the rest of 30 B at 10 B/s until 11 s.
TEST(Simulate, MessagesShareACard) {
  ProgramBuilder b(3);
  const int first = b.send(0, 1, Bytes(30));
  const int second = b.send(0, 2, Bytes(60), {}, core::Channel::Gradient);
  b.receive(1, 0, Bytes(30));
  b.receive(2, 0, Bytes(60), {}, core::Channel::Gradient);
  const Trace trace = simulate(b.program, b.durations, slow_star(3));
  expect_span(span_of(trace, 0, first), 0, 0, 8);
  expect_span(span_of(trace, 0, second), 0, 0, 11);
}

// Rank 0's second step starts when its first has ended on all streams, whatever other ranks do.
TEST(Simulate, StepsFollowEachOther) {
  ProgramBuilder b(2);
  b.compute(0, 2);
  b.compute(0, 5, {}, Stream::Data);
  b.compute(1, 1);
  SimulateOptions options;
  options.steps = 3;
  const Trace trace = simulate(b.program, b.durations, slow_star(2), options);
  expect_span(span_of(trace, 0, 0, 2), 10, 10, 12);
  expect_span(span_of(trace, 1, 0, 2), 2, 2, 3);
  ASSERT_EQ(trace.steps.size(), 3u);
  EXPECT_DOUBLE_EQ(trace.steps[1].start.value, 1);
  EXPECT_DOUBLE_EQ(trace.steps[1].end.value, 10);
}

// 3 CPU ranks on 2 cores with 4, 4 and 1 core-seconds: 2/3 core each until the short one ends at
// 1.5 s; then a core each for the 3 s that the others still have: 4.5 s.
TEST(Simulate, RanksShareTheCoresOfTheirNode) {
  ProgramBuilder b(3);
  for (const int r : {0, 1, 2}) b.compute(r, r == 2 ? 1 : 4);
  core::Cluster cluster = one_node(3, {1.0_us, 1.0_GBps});
  cluster.groups[0].type.device.kind = core::DeviceKind::Cpu;
  cluster.groups[0].type.cores = 2;
  const Trace trace = simulate(b.program, b.durations, cluster);
  EXPECT_DOUBLE_EQ(span_of(trace, 2, 0).end.value, 1.5);
  EXPECT_DOUBLE_EQ(span_of(trace, 0, 0).end.value, 4.5);
  EXPECT_DOUBLE_EQ(span_of(trace, 1, 0).end.value, 4.5);
}

// Parameters 100 B throughout; a call's buffer of 40 B from its writer's start (2 s) to the end of
// the instruction that frees it (5 s).
TEST(Simulate, CountsLiveMemory) {
  ProgramBuilder b(1);
  core::Buffer parameters;
  parameters.shape = {25};
  parameters.scope = core::BufferScope::Run;
  core::Buffer activations;
  activations.shape = {10};
  activations.scope = core::BufferScope::Call;
  b.role(0).buffers = {parameters, activations};
  b.compute(0, 2);
  const int write = b.compute(0, 1);
  const int last = b.compute(0, 2);
  b.instruction(0, write).writes = {{core::BufferId(1), 0, 10, std::nullopt}};
  b.instruction(0, last).frees = {core::BufferId(1)};
  b.compute(0, 1);
  const Trace trace = simulate(b.program, b.durations, slow_star(1));
  ASSERT_EQ(trace.counters.size(), 1u);
  const core::Counter& memory = trace.counters.front();
  EXPECT_EQ(memory.rank, Rank(0));
  EXPECT_EQ(memory.time, (std::vector<Seconds>{Seconds(0), Seconds(2), Seconds(5)}));
  EXPECT_EQ(memory.value, (std::vector<double>{100, 140, 100}));
}

// Both ranks receive before they send on one stream's order: each send waits for the receive.
TEST(Simulate, NamesTheCircleOfADeadlock) {
  ProgramBuilder b(2);
  for (const int r : {0, 1}) {
    const int receive = b.receive(r, 1 - r, Bytes(1));
    b.send(r, 1 - r, Bytes(1), {receive});
  }
  try {
    simulate(b.program, b.durations, slow_star(2));
    FAIL() << "no deadlock";
  } catch (const core::SystemError& e) {
    EXPECT_THAT(e.what(), HasSubstr("rank 0 step 0 call 0 (block) receive i0 waits for rank 1"));
    EXPECT_THAT(e.what(), HasSubstr("rank 1 step 0 call 0 (block) send i1 waits for rank 1"));
    EXPECT_THAT(e.what(), HasSubstr("rank 1 step 0 call 0 (block) receive i0 waits for rank 0"));
  }
}

TEST(Simulate, NamesAPartyThatNeverComes) {
  ProgramBuilder b(2);
  b.receive(0, 1, Bytes(1));
  b.compute(1, 1);
  try {
    simulate(b.program, b.durations, slow_star(2));
    FAIL() << "no deadlock";
  } catch (const core::SystemError& e) {
    EXPECT_THAT(e.what(), HasSubstr("rank 0 step 0 call 0 (block) receive i0 waits for rank 1"));
    EXPECT_THAT(e.what(), HasSubstr("never comes"));
  }
}

// One worker, two servers, 10 keys of width 2: each server gets 4 + 4·5 = 24 B and answers 40 B;
// the worker's card carries both: requests end at 2 + 48/10, answers at 2 + 80/10 later: 16.8 s.
TEST(Simulate, APullMeetsEveryServer) {
  ProgramBuilder b(3);
  const core::GroupId servers = b.group({1, 2});
  core::Instruction pull;
  pull.operation = core::Pull{b.slot(0, servers), 2, 10};
  pull.stream = Stream::ParameterServer;
  const int index = b.add(0, pull);
  for (const int server : {1, 2}) {
    core::Instruction serve;
    serve.operation = core::ServePull{b.peer(server, 0), 2, 5};
    serve.stream = Stream::Serve;
    b.add(server, serve);
  }
  const Trace trace = simulate(b.program, b.durations, slow_star(3));
  expect_span(span_of(trace, 0, index), 0, 0, 16.8);
  EXPECT_DOUBLE_EQ(span_of(trace, 0, index).bytes.value, 2 * (24 + 40));
  EXPECT_DOUBLE_EQ(span_of(trace, 1, 0).bytes.value, 24 + 40);
  EXPECT_EQ(trace.flows.size(), 2u);
}

TEST(Simulate, DelaysKeepTheOrderAndTheSeedDecides) {
  ProgramBuilder b(2);
  const int work = b.compute(0, 5);
  b.send(0, 1, Bytes(30), {work});
  b.compute(1, 1, {b.receive(1, 0, Bytes(30))});
  SimulateOptions options;
  options.delays = RandomDelays{1, Seconds(3)};
  const Trace once = simulate(b.program, b.durations, slow_star(2), options);
  const Trace again = simulate(b.program, b.durations, slow_star(2), options);
  options.delays->seed = 2;
  const Trace other = simulate(b.program, b.durations, slow_star(2), options);
  EXPECT_EQ(once, again);
  EXPECT_FALSE(once == other);
  EXPECT_GE(span_of(once, 1, 1).start, span_of(once, 0, 1).end);
  EXPECT_GT(span_of(once, 0, 0).end.value, 5);
  EXPECT_LT(span_of(once, 0, 0).end.value, 8);
}

TEST(Simulate, ReportsProgressUpToTheEnd) {
  ProgramBuilder b(1);
  for (int i = 0; i < 1000; ++i) b.compute(0, 1);
  SimulateOptions options;
  std::vector<double> shares;
  options.progress = [&](double share) { shares.push_back(share); };
  simulate(b.program, b.durations, slow_star(1), options);
  EXPECT_EQ(shares.size(), 200u);
  EXPECT_DOUBLE_EQ(shares.back(), 1.0);
  EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
}

TEST(Simulate, ACollectiveOfOneIsFree) {
  ProgramBuilder b(1);
  b.collective(0, CollectiveKind::AllReduce, b.group({0}), 1.0_GB);
  EXPECT_DOUBLE_EQ(simulate(b.program, b.durations, slow_star(1)).duration().value, 0);
}

}  // namespace
}  // namespace orrery::sim
