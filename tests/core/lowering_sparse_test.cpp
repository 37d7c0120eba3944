#include "core/lowering/lowering_sparse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/check/program_check.h"
#include "core/error.h"
#include "core/network/unique_keys.h"
#include "tests/core/plan_name.h"

namespace orrery::core {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kBatch = 48;

Model deepfm() {
  ClickThrough c;
  c.dense_features = 13;
  c.tables = {{.name = "hash", .rows = 5200, .dim = 8, .lookups_per_sample = 26}};
  c.mlp = {64, 32};
  return Model{"deepfm", {}, c};
}

Job job() {
  Job j;
  j.global_batch = kBatch;
  j.optimizer.kind = OptimizerKind::Adam;
  j.optimizer.learning_rate = 1e-3;
  j.sparse_optimizer = Optimizer{.kind = OptimizerKind::AdaGrad, .learning_rate = 0.05};
  return j;
}

Cluster ranks(int count) {
  NodeType node;
  node.device.kind = DeviceKind::Cpu;
  node.devices = count;
  Cluster cluster;
  cluster.groups = {{node, 1}};
  return cluster;
}

Program lowered(SparsePlan sparse, const Model& model = deepfm(), const Job& asked = job()) {
  Plan plan;
  plan.sparse = sparse;
  return lower_sparse(plan, model, ranks(sparse.devices()), asked);
}

/// Labels of a rank's instructions on one stream, in order.
std::vector<std::string> on_stream(const Program& program, Rank rank, Stream stream) {
  std::vector<std::string> labels;
  const Role& role = program.role_of(rank);
  for (const Call& call : role.step) {
    for (const Instruction& i : role.blocks[call.block.index()].instructions) {
      if (i.stream == stream) {
        labels.push_back(i.label + (call.microbatch ? std::to_string(*call.microbatch) : ""));
      }
    }
  }
  return labels;
}

template <class T>
std::vector<T> operations(const Role& role) {
  std::vector<T> found;
  for (const Call& call : role.step) {
    for (const Instruction& i : role.blocks[call.block.index()].instructions) {
      if (const auto* op = std::get_if<T>(&i.operation)) found.push_back(*op);
    }
  }
  return found;
}

// 5200 rows over 26 fields: field f has rows 200·f .. 200·f + 199.
TEST(EmbeddingOf, CutsATableIntoEqualFields) {
  const Embedding embedding = embedding_of(*deepfm().click_through, 3);
  ASSERT_EQ(embedding.fields.size(), 26u);
  EXPECT_EQ(embedding.fields[25].first_row, 5000);
  EXPECT_EQ(embedding.fields[25].rows, 200);
  EXPECT_EQ(embedding.rows, 5200);
  EXPECT_EQ(embedding.width(), 9);
}

TEST(EmbeddingOf, PutsTablesOneAfterTheOther) {
  ClickThrough c;
  c.tables = {{.name = "a", .rows = 10, .dim = 4}, {.name = "b", .rows = 30, .dim = 4}};
  c.wide = false;
  const Embedding embedding = embedding_of(c, 1);
  ASSERT_EQ(embedding.fields.size(), 2u);
  EXPECT_EQ(embedding.fields[1].first_row, 10);
  EXPECT_EQ(embedding.fields[1].rows, 30);
  EXPECT_EQ(embedding.width(), 4);
}

// Uniform ids: 26 fields of 200 rows, 200·(1 − (1 − 1/200)^64) distinct each.
TEST(ExpectedKeys, CountsEachFieldByItself) {
  const Embedding embedding = embedding_of(*deepfm().click_through, 1);
  EXPECT_NEAR(expected_keys(embedding, 64), 26 * 200 * (1 - std::pow(1 - 1.0 / 200, 64)), 1e-6);
}

TEST(LowerSparse, ServesTheWorkersInTurn) {
  const Program program = lowered({.workers = 2, .servers = 2, .slices = 1});
  ASSERT_EQ(program.ranks.size(), 4u);
  EXPECT_THAT(on_stream(program, Rank(0), Stream::ParameterServer), ElementsAre("pull0", "push0"));
  EXPECT_THAT(on_stream(program, Rank(3), Stream::Serve),
              ElementsAre("sum count", "sum index", "pull, turn 00", "pull, turn 10",
                          "push, turn 00", "push, turn 10", "pushed rows0", "embedding"));
  // Server 0 begins with worker 0, server 1 with worker 1.
  EXPECT_THAT(program.ranks[2].peers, ElementsAre(Rank(0), Rank(1)));
  EXPECT_THAT(program.ranks[3].peers, ElementsAre(Rank(1), Rank(0)));
}

// Slice s + 1 is pulled before slice s is trained; the servers follow the same order.
TEST(LowerSparse, PullsTheNextSliceBeforeItTrainsThisOne) {
  const Program program = lowered({.workers = 1, .servers = 1, .slices = 3});
  EXPECT_THAT(on_stream(program, Rank(0), Stream::ParameterServer),
              ElementsAre("pull0", "pull1", "push0", "pull2", "push1", "push2"));
  EXPECT_THAT(on_stream(program, Rank(1), Stream::Serve),
              ElementsAre("sum count", "sum index", "pull, turn 00", "pull, turn 01",
                          "push, turn 00", "pushed rows0", "pull, turn 02", "push, turn 01",
                          "pushed rows1", "push, turn 02", "pushed rows2", "embedding"));
}

TEST(LowerSparse, ColocatedRanksHaveBothLists) {
  const Program program = lowered({.workers = 2, .servers = 1, .colocated = true});
  ASSERT_EQ(program.ranks.size(), 2u);
  EXPECT_EQ(program.role_of(Rank(0)).name, "worker and server");
  EXPECT_EQ(program.role_of(Rank(1)).name, "worker");
  EXPECT_TRUE(program.role_of(Rank(0)).shard.has_value());
  EXPECT_FALSE(program.role_of(Rank(1)).shard.has_value());
  EXPECT_EQ(program.ranks[0].server, 0);
  EXPECT_EQ(program.ranks[1].server, std::nullopt);
  EXPECT_THAT(program.groups[1].members, ElementsAre(Rank(0)));
}

// Every pull of a worker meets one ServePull of it at each server, every push one ServePush.
TEST(LowerSparse, PullsAndPushesMeetTheirServers) {
  const Program program = lowered({.workers = 3, .servers = 2, .slices = 4}, deepfm(), [] {
    Job j = job();
    j.global_batch = 3 * 4 * 8;
    return j;
  }());
  const Role& worker = program.role_of(Rank(0));
  const Role& server = program.role_of(Rank(3));
  EXPECT_EQ(operations<Pull>(worker).size(), 4u);
  EXPECT_EQ(operations<Push>(worker).size(), 4u);
  for (int w = 0; w < 3; ++w) {
    int pulls = 0;
    for (const ServePull& serve : operations<ServePull>(server))
      pulls += serve.worker == PeerSlot(w);
    EXPECT_EQ(pulls, 4);
  }
  // A worker's keys spread evenly: each of 2 servers expects half.
  EXPECT_DOUBLE_EQ(operations<ServePull>(server)[0].expected_keys,
                   operations<Pull>(worker)[0].expected_keys / 2);
}

// 13 + 26·8 = 221 inputs: 1 + 13 + (221·64 + 64) + (64·32 + 32) + (32 + 1) dense parameters.
TEST(LowerSparse, LaysOutTheDenseParameters) {
  const Program program = lowered({.workers = 1, .servers = 1});
  const Role& worker = program.role_of(Rank(0));
  EXPECT_EQ(worker.parameters.elements, 1 + 13 + 221 * 64 + 64 + 64 * 32 + 32 + 32 + 1);
  EXPECT_EQ(worker.parameters.elements + 5200 * 9, parameter_count(*deepfm().click_through));
  EXPECT_EQ(worker.parameters.optimizer_state.size(), 2u);
  EXPECT_FALSE(program.role_of(Rank(1)).parameters.values.has_value());
}

// 5200 rows on 3 servers: 1734 at most each, rows and AdaGrad sums of 9 floats.
TEST(LowerSparse, CountsTheShardAsMemory) {
  const Program program = lowered({.workers = 1, .servers = 3});
  const Role& server = program.role_of(Rank(1));
  ASSERT_TRUE(server.shard.has_value());
  ASSERT_TRUE(server.shard->state.has_value());
  EXPECT_EQ(server.buffers[server.shard->rows.index()].bytes(), Bytes(1734.0 * 9 * 4));
  EXPECT_EQ(server.buffers[server.shard->state->index()].bytes(), Bytes(1734.0 * 9 * 4));
}

TEST(LowerSparse, KeepsOneSliceInItsOwnGradients) {
  const auto adds = [](const Program& program) {
    int count = 0;
    for (const Compute& c : operations<Compute>(program.role_of(Rank(0)))) {
      count += std::holds_alternative<Add>(c.op) ? 1 : 0;
    }
    return count;
  };
  EXPECT_EQ(adds(lowered({.workers = 1, .servers = 1, .slices = 1})), 0);
  EXPECT_EQ(adds(lowered({.workers = 1, .servers = 1, .slices = 4})), 4);
}

class EverySparsePlan : public ::testing::TestWithParam<SparsePlan> {};

TEST_P(EverySparsePlan, IsSound) { EXPECT_THAT(check_program(lowered(GetParam())), IsEmpty()); }

/// Whether a wait only holds a load back, so that memory stays bounded.
bool bounds_prefetch(const Role& role, const CallWait& wait, std::size_t call) {
  return role.at(static_cast<int>(call), wait.instruction).stream == Stream::Host;
}

/// Calls `check` with each wait of each role removed from a copy of the program.
template <class Check>
void without_each_wait(const Program& program, Check check) {
  for (std::size_t r = 0; r < program.roles.size(); ++r) {
    for (std::size_t b = 0; b < program.roles[r].blocks.size(); ++b) {
      for (std::size_t i = 0; i < program.roles[r].blocks[b].instructions.size(); ++i) {
        const auto& waits = program.roles[r].blocks[b].instructions[i].waits;
        for (std::size_t w = 0; w < waits.size(); ++w) {
          Program mutilated = program;
          auto& left = mutilated.roles[r].blocks[b].instructions[i].waits;
          left.erase(left.begin() + static_cast<std::ptrdiff_t>(w));
          check(mutilated, program.roles[r].blocks[b].instructions[i].label);
        }
      }
    }
    for (std::size_t c = 0; c < program.roles[r].step.size(); ++c) {
      for (std::size_t w = 0; w < program.roles[r].step[c].waits.size(); ++w) {
        if (bounds_prefetch(program.roles[r], program.roles[r].step[c].waits[w], c)) continue;
        Program mutilated = program;
        auto& left = mutilated.roles[r].step[c].waits;
        left.erase(left.begin() + static_cast<std::ptrdiff_t>(w));
        check(mutilated, "call " + std::to_string(c));
      }
    }
  }
}

TEST_P(EverySparsePlan, NeedsEachOfItsDependencies) {
  int deleted = 0;
  without_each_wait(lowered(GetParam()), [&](const Program& mutilated, const std::string& where) {
    ++deleted;
    EXPECT_FALSE(check_program(mutilated).empty()) << where;
  });
  EXPECT_GT(deleted, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Plans, EverySparsePlan,
    ::testing::Values(SparsePlan{.workers = 1, .servers = 1},
                      SparsePlan{.workers = 2, .servers = 2},
                      SparsePlan{.workers = 4, .servers = 1, .slices = 2},
                      SparsePlan{.workers = 1, .servers = 3, .slices = 4},
                      SparsePlan{.workers = 1, .servers = 1, .colocated = true, .slices = 2},
                      SparsePlan{.workers = 3, .servers = 2, .colocated = true, .slices = 4}),
    sparse_plan_name);

TEST(LowerSparse, RefusesAPlanForAnotherCluster) {
  Plan plan;
  plan.sparse = SparsePlan{.workers = 2, .servers = 2};
  EXPECT_THROW(lower_sparse(plan, deepfm(), ranks(3), job()), ConfigError);
}

}  // namespace
}  // namespace orrery::core
