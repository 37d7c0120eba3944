#include "core/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace orrery::core {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Instruction instruction(std::string label, Operation operation, Stream stream, Pass pass,
                        std::vector<int> waits) {
  Instruction i;
  i.label = std::move(label);
  i.operation = std::move(operation);
  i.stream = stream;
  i.pass = pass;
  i.waits = std::move(waits);
  return i;
}

Compute zero() { return {Zero{1}, {}}; }

// Two stages, each with one call per microbatch: stage 0 computes and sends, stage 1 receives and
// computes; then both meet in one all-reduce.
Program two_stages(int microbatches) {
  Role first;
  Role last;
  first.blocks.push_back({"forward",
                          {instruction("layer", zero(), Stream::Compute, Pass::Forward, {}),
                           instruction("out", Send{PeerSlot(0), Channel::Activation, Bytes(10)},
                                       Stream::SendActivation, Pass::Forward, {0})}});
  last.blocks.push_back({"forward",
                         {instruction("in", Receive{PeerSlot(0), Channel::Activation, Bytes(10)},
                                      Stream::ReceiveActivation, Pass::Forward, {}),
                          instruction("layer", zero(), Stream::Compute, Pass::Backward, {0})}});
  const Block end{
      "step",
      {instruction("norm", Collective{CollectiveKind::AllReduce, GroupSlot(0), {}, Bytes(4)},
                   Stream::Data, Pass::OptimizerStep, {})}};
  for (Role* role : {&first, &last}) {
    role->blocks.push_back(end);
    for (int m = 0; m < microbatches; ++m) role->step.push_back({BlockId(0), m, {}});
    role->step.push_back({BlockId(1), std::nullopt, {}});
  }
  const int after = microbatches - 1;
  first.step.back().waits = {{0, after, 0}};
  last.step.back().waits = {{0, after, 1}};
  Program program;
  program.roles = {first, last};
  program.ranks = {{RoleId(0), {GroupId(0)}, {Rank(1)}, 0, 0, {}},
                   {RoleId(1), {GroupId(0)}, {Rank(0)}, 1, 0, {}}};
  program.groups = {{GroupKind::World, {Rank(0), Rank(1)}}};
  return program;
}

// Records in any order: lanes come out by (rank, stream), spans by (lane, program order).
Trace trace_of(const Program& program, int microbatches) {
  TraceBuilder builder(program);
  for (int m = microbatches - 1; m >= 0; --m) {
    const double t = 10.0 * m;
    builder.add(Rank(1), {0, m, 1}, Seconds(t + 3), Seconds(t + 99), Seconds(t + 4), Bytes(0));
    builder.add(Rank(1), {0, m, 0}, Seconds(t), Seconds(t + 1), Seconds(t + 3), Bytes(10));
    builder.add(Rank(0), {0, m, 1}, Seconds(t + 1), Seconds(t + 1), Seconds(t + 3), Bytes(10));
    builder.add(Rank(0), {0, m, 0}, Seconds(t), Seconds(t), Seconds(t + 1), Bytes(0));
  }
  const double t = 10.0 * microbatches;
  for (int r : {0, 1}) {
    builder.add(Rank(r), {0, microbatches, 0}, Seconds(t + r), Seconds(t + 1), Seconds(t + 2),
                Bytes(4));
  }
  builder.stands_for(Rank(1), {Rank(3), Rank(5)});
  builder.add_step({Seconds(0), Seconds(t + 2), 1.5});
  return builder.build(false, {{"plan", "pp2"}});
}

TEST(TraceBuilder, SortsLanesByRankAndStream) {
  const Trace trace = trace_of(two_stages(2), 2);
  ASSERT_EQ(trace.lanes.size(), 6u);
  EXPECT_EQ(trace.lanes[0], (Lane{Rank(0), Stream::Compute, {}}));
  EXPECT_EQ(trace.lanes[1], (Lane{Rank(0), Stream::SendActivation, {}}));
  EXPECT_EQ(trace.lanes[2], (Lane{Rank(0), Stream::Data, {}}));
  EXPECT_EQ(trace.lanes[3], (Lane{Rank(1), Stream::Compute, {Rank(3), Rank(5)}}));
  EXPECT_EQ(trace.lanes[4].stream, Stream::ReceiveActivation);
  EXPECT_EQ(trace.lanes[5].stream, Stream::Data);
}

TEST(TraceBuilder, KeepsEachLaneInProgramOrderAndInternsNames) {
  const Trace trace = trace_of(two_stages(2), 2);
  ASSERT_EQ(trace.spans.size(), 10u);
  EXPECT_EQ(trace.spans[0].instruction, (InstructionRef{0, 0, 0}));
  EXPECT_EQ(trace.spans[1].instruction, (InstructionRef{0, 1, 0}));
  EXPECT_EQ(trace.spans[0].name, trace.spans[1].name);
  EXPECT_EQ(trace.names[static_cast<std::size_t>(trace.spans[0].name)], "zero layer");
  EXPECT_EQ(trace.spans[1].microbatch, 1);
  EXPECT_EQ(trace.spans[4].microbatch, std::nullopt);
  EXPECT_EQ(trace.spans[4].kind, SpanKind::DataCommunication);
  EXPECT_EQ(trace.spans[2].kind, SpanKind::PipelineCommunication);
  EXPECT_EQ(trace.spans[5].kind, SpanKind::Backward);
}

// A compute instruction waits for nobody once it has started: transfer = start whatever was said.
TEST(TraceBuilder, ComputeTransfersAtOnce) {
  const Trace trace = trace_of(two_stages(1), 1);
  for (const Span& span : trace.spans) {
    if (!is_communication(span.kind)) {
      EXPECT_EQ(span.transfer, span.start);
    }
  }
}

// Spans 0 1: computes of rank 0; 2 3: its sends; 4: its all-reduce; 5 6: computes of rank 1;
// 7 8: its receives; 9: its all-reduce.
TEST(TraceBuilder, ListsTheWaitsOfInstructionAndCall) {
  const Trace trace = trace_of(two_stages(2), 2);
  EXPECT_THAT(trace.dependency_begin, ElementsAre(0, 0, 0, 1, 2, 3, 4, 5, 5, 5, 6));
  EXPECT_THAT(trace.dependencies, ElementsAre(0, 1, /*call wait*/ 1, 7, 8, /*call wait*/ 6));
}

TEST(TraceBuilder, JoinsTheKthSendToTheKthReceive) {
  const Trace trace = trace_of(two_stages(2), 2);
  EXPECT_THAT(trace.flows, ElementsAre(Flow{2, 7, Bytes(10)}, Flow{3, 8, Bytes(10)}));
}

TEST(TraceBuilder, ListsTheMembersOfEachCollective) {
  const Trace trace = trace_of(two_stages(2), 2);
  EXPECT_THAT(trace.collective_begin, ElementsAre(0, 2));
  EXPECT_THAT(trace.collective_spans, ElementsAre(4, 9));
}

TEST(TraceBuilder, AnEmptyRunGivesAnEmptyTrace) {
  const Program program = two_stages(1);
  const Trace trace = TraceBuilder(program).build(true, {});
  EXPECT_THAT(trace.spans, IsEmpty());
  EXPECT_EQ(trace.duration(), Seconds(0));
}

// Worker 0 pulls from servers 1 and 2: each answers with its part of the rows.
TEST(TraceBuilder, JoinsServersToTheirWorker) {
  Role worker;
  worker.blocks.push_back(
      {"forward",
       {instruction("rows", Pull{GroupSlot(0), 4, 8}, Stream::ParameterServer, Pass::Forward, {}),
        instruction("rows", Push{GroupSlot(0), 4, 8}, Stream::ParameterServer, Pass::Backward,
                    {})}});
  Role server;
  server.blocks.push_back(
      {"serve",
       {instruction("rows", ServePull{PeerSlot(0), 4, 4}, Stream::Serve, Pass::Serve, {}),
        instruction("rows", ServePush{PeerSlot(0), 4, 4}, Stream::Serve, Pass::Serve, {})}});
  worker.step = {{BlockId(0), 0, {}}};
  server.step = {{BlockId(0), std::nullopt, {}}};
  Program program;
  program.roles = {worker, server};
  program.ranks = {{RoleId(0), {GroupId(0)}, {}, 0, 0, {}},
                   {RoleId(1), {}, {Rank(0)}, 0, 0, 0},
                   {RoleId(1), {}, {Rank(0)}, 0, 0, 1}};
  program.groups = {{GroupKind::Servers, {Rank(1), Rank(2)}}};
  TraceBuilder builder(program);
  for (int r : {0, 1, 2}) {
    for (int i : {0, 1}) {
      builder.add(Rank(r), {0, 0, i}, Seconds(i), Seconds(i), Seconds(i + 1),
                  Bytes(100 * (r + 1) + i));
    }
  }
  const Trace trace = builder.build(true, {});
  // Spans: pull 0, push 1, rank 1: 2 3, rank 2: 4 5. The server's bytes are its part.
  EXPECT_THAT(trace.flows, ElementsAre(Flow{1, 3, Bytes(201)}, Flow{1, 5, Bytes(301)},
                                       Flow{2, 0, Bytes(200)}, Flow{4, 0, Bytes(300)}));
}

}  // namespace
}  // namespace orrery::core
