// Ranks as MPI processes against ranks as threads. Every process runs every test; mpirun starts
// this program with 2, 4 and 8 ranks.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>

#include "engine/collective.h"
#include "engine/execute.h"
#include "engine/mpi_communicator.h"
#include "engine/rank_run.h"
#include "engine/safetensors.h"
#include "engine/token_data.h"
#include "tests/engine/parity_fixture.h"
#include "tests/engine/temporary_folder.h"

namespace orrery::engine {
namespace {

using core::Rank;

MpiSession* session = nullptr;

core::DensePlan layout(int data, int tensor, int pipeline, int sharding, int microbatch,
                       core::PipelineSchedule schedule = core::PipelineSchedule::OneFOneB) {
  core::DensePlan plan;
  plan.data = data;
  plan.tensor = tensor;
  plan.pipeline = pipeline;
  plan.sharding = sharding;
  plan.sharding_stage = sharding > 1 ? 1 : 0;
  plan.microbatch = microbatch;
  plan.schedule = schedule;
  plan.layers_per_stage.assign(static_cast<std::size_t>(pipeline), 2 / pipeline);
  return plan;
}

std::vector<core::DensePlan> layouts_of(int ranks) {
  std::vector<core::DensePlan> fitting;
  for (const core::DensePlan& plan :
       {layout(2, 1, 1, 1, 2), layout(1, 2, 1, 1, 4), layout(1, 1, 2, 1, 2), layout(1, 1, 1, 2, 4),
        layout(2, 1, 1, 2, 1), layout(1, 2, 2, 1, 2, core::PipelineSchedule::GPipe),
        layout(1, 1, 2, 1, 2, core::PipelineSchedule::ZeroBubbleH1),
        layout(1, 2, 2, 1, 1, core::PipelineSchedule::ZeroBubbleH1), layout(2, 2, 2, 1, 1),
        layout(1, 2, 2, 2, 1)}) {
    if (plan.devices() == ranks) fitting.push_back(plan);
  }
  return fitting;
}

// Messages to and from every rank, itself too, of every kind of size.
TEST(MpiCommunicator, MessagesArriveWhole) {
  const auto c = session->communicator();
  const int ranks = c->ranks();
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{300'000}}) {
    std::vector<std::vector<int>> out, in;
    std::vector<Communicator::Request> requests;
    for (int peer = 0; peer < ranks; ++peer) {
      out.emplace_back(length, c->rank().value * 100 + peer);
      in.emplace_back(length, -1);
    }
    for (int peer = 0; peer < ranks; ++peer) {
      const auto at = static_cast<std::size_t>(peer);
      requests.push_back(c->start_receive(Rank(peer), 5, in[at].data(), length * sizeof(int)));
      requests.push_back(c->start_send(Rank(peer), 5, out[at].data(), length * sizeof(int)));
    }
    for (const auto request : requests) {
      wait_until(*c, [&] { return c->test(request); });
    }
    for (int peer = 0; peer < ranks; ++peer) {
      EXPECT_EQ(in[static_cast<std::size_t>(peer)],
                std::vector<int>(length, peer * 100 + c->rank().value));
    }
  }
}

// MPI itself takes a shorter message for a longer receive without a word, and gives a longer one
// back as an error.
TEST(MpiCommunicator, AMessageOfAnotherSizeIsNoticed) {
  for (const std::size_t sent : {std::size_t{4}, std::size_t{12}}) {
    const auto c = session->communicator();
    const int out[3] = {1, 2, 3};
    int in[2] = {};
    const auto receive = c->start_receive(c->rank(), 6, in, sizeof(in));
    c->start_send(c->rank(), 6, out, sent);
    EXPECT_ANY_THROW(wait_until(*c, [&] { return c->test(receive); })) << sent;
  }
}

std::vector<std::byte> bytes_of(const SafetensorsFile& file) {
  std::vector<std::byte> all;
  for (const auto& [name, tensor] : file.tensors()) {
    all.insert(all.end(), tensor.bytes.begin(), tensor.bytes.end());
  }
  return all;
}

// The same losses and the same weights as with threads, bit for bit: sums have one order.
TEST(MpiRanks, TrainLikeThreads) {
  const auto communicator = session->communicator();
  const core::Job job = tiny_job();
  const auto tokens = open_token_array(fixture("hf/gpt2/data.safetensors"), 256);
  const TemporaryFolder folder;
  for (const core::DensePlan& plan : layouts_of(communicator->ranks())) {
    const core::Program program = lowered(dense_plan(plan), tiny_gpt2(), job);
    ExecuteOptions options;
    options.tokens = tokens.get();
    options.initial_weights = fixture("hf/gpt2/model.safetensors");
    options.final_weights = folder.path() / "mpi.safetensors";
    const auto trace = execute_rank(program, job, *communicator, options);
    EXPECT_EQ(trace.has_value(), communicator->rank() == Rank(0));
    if (!trace) continue;
    options.final_weights = folder.path() / "threads.safetensors";
    const core::Trace with_threads = execute(program, job, options);
    EXPECT_EQ(losses_of(*trace), losses_of(with_threads)) << program.plan;
    EXPECT_EQ(trace->spans.size(), with_threads.spans.size());
    EXPECT_EQ(trace->lanes, with_threads.lanes);
    EXPECT_EQ(bytes_of(SafetensorsFile(folder.path() / "mpi.safetensors")),
              bytes_of(SafetensorsFile(folder.path() / "threads.safetensors")));
  }
}

std::vector<core::SparsePlan> sparse_layouts_of(int ranks) {
  std::vector<core::SparsePlan> fitting;
  for (const core::SparsePlan& plan :
       {core::SparsePlan{.workers = 1, .servers = 1, .slices = 2},
        core::SparsePlan{.workers = 2, .servers = 2},
        core::SparsePlan{.workers = 4, .servers = 2, .colocated = true, .slices = 2},
        core::SparsePlan{.workers = 4, .servers = 4}}) {
    if (plan.devices() == ranks) fitting.push_back(plan);
  }
  return fitting;
}

// A parameter server's workers and servers as processes.
TEST(MpiRanks, ServeLikeThreads) {
  const auto communicator = session->communicator();
  const core::Job job = tiny_click_through_job();
  const TemporaryFolder folder;
  for (const core::SparsePlan& plan : sparse_layouts_of(communicator->ranks())) {
    const core::Program program = lowered(sparse_plan(plan), tiny_deepfm(), job);
    ExecuteOptions options;
    options.final_weights = folder.path() / "mpi.safetensors";
    options.threads = 1;
    const auto trace = execute_rank(program, job, *communicator, options);
    if (!trace) continue;
    options.final_weights = folder.path() / "threads.safetensors";
    const core::Trace with_threads = execute(program, job, options);
    EXPECT_EQ(losses_of(*trace), losses_of(with_threads)) << program.plan;
    EXPECT_EQ(trace->lanes, with_threads.lanes);
    ASSERT_EQ(trace->spans.size(), with_threads.spans.size());
    for (std::size_t s = 0; s < trace->spans.size(); ++s) {
      EXPECT_EQ(trace->spans[s].bytes, with_threads.spans[s].bytes);
    }
    EXPECT_EQ(bytes_of(SafetensorsFile(folder.path() / "mpi.safetensors")),
              bytes_of(SafetensorsFile(folder.path() / "threads.safetensors")));
  }
}

// Clocks of one host are one: no span ends after the run, and matched spans overlap.
TEST(MpiRanks, ShareOneClock) {
  const auto communicator = session->communicator();
  const core::Job job = tiny_job();
  const auto tokens = open_token_array(fixture("hf/gpt2/data.safetensors"), 256);
  const core::Program program =
      lowered(dense_plan(layouts_of(communicator->ranks()).front()), tiny_gpt2(), job);
  ExecuteOptions options;
  options.tokens = tokens.get();
  options.steps = 3;
  const auto trace = execute_rank(program, job, *communicator, options);
  if (!trace) return;
  for (std::size_t c = 0; c + 1 < trace->collective_begin.size(); ++c) {
    core::Seconds last_start, first_end(1e9);
    for (auto i = trace->collective_begin[c]; i < trace->collective_begin[c + 1]; ++i) {
      const auto index = trace->collective_spans[static_cast<std::size_t>(i)];
      const core::Span& span = trace->spans[static_cast<std::size_t>(index)];
      last_start = std::max(last_start, span.start);
      first_end = std::min(first_end, span.end);
    }
    EXPECT_LE(last_start, first_end) << "collective " << c;
  }
}

// Prints only what fails: every process runs this program.
class FailurePrinter : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "rank %d: %s:%d: %s\n", session->rank().value,
                 result.file_name() == nullptr ? "" : result.file_name(), result.line_number(),
                 result.message());
  }
};

}  // namespace
}  // namespace orrery::engine

int main(int argc, char** argv) {
  orrery::engine::MpiSession session;
  orrery::engine::session = &session;
  testing::InitGoogleTest(&argc, argv);
  if (session.rank() != orrery::core::Rank(0)) {
    testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new orrery::engine::FailurePrinter);
  }
  return RUN_ALL_TESTS();
}
