#pragma once
// Runs one rank of a Program. One thread interprets all its streams: it starts every communication
// that is ready, computes one ready instruction, looks at what is under way, and sleeps only when
// nothing is ready. The order is that of core/program.h and nothing else.

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "core/job.h"
#include "core/program.h"
#include "core/units.h"
#include "engine/buffer_pool.h"
#include "engine/communicator.h"
#include "engine/operator_context.h"
#include "engine/rank_program.h"
#include "engine/running_communication.h"

namespace orrery::engine {

/// One executed instruction. Times in seconds since the run's start.
struct InstructionRecord {
  std::int32_t step = 0;
  std::int32_t instruction = 0;  ///< Into RankProgram::instructions.
  double start = 0.0;
  double end = 0.0;
  std::int64_t bytes = 0;  ///< What a communication moved (CommunicationLane::bytes_moved).
};

struct MemorySample {
  double time = 0.0;
  std::int64_t bytes = 0;
};

struct InterpreterOptions {
  DataSources data{};
  bool poison = false;  ///< See BufferPool.
  /// Holds every instruction back by a random time and takes ready ones in random order: what
  /// respects the dependencies must not change the result.
  std::optional<std::uint64_t> delay_seed{};
  std::chrono::steady_clock::time_point epoch{};  ///< The run's start.
};

class RankInterpreter {
 public:
  /// Program, job and communicator outlive it.
  RankInterpreter(const core::Program&, const core::Job&, core::Rank, Communicator&,
                  const InterpreterOptions&);
  RankInterpreter(const RankInterpreter&) = delete;
  RankInterpreter& operator=(const RankInterpreter&) = delete;

  /// Runs every instruction of one step. With `record`, keeps when.
  /// @throws SystemError when this or another rank fails.
  void run_step(int step, bool record);

  const RankProgram& program() const { return program_; }
  const BufferPool& pool() const { return pool_; }
  /// Moves out what was recorded.
  void take_records(std::vector<InstructionRecord>&, std::vector<MemorySample>&);
  /// First element of a Run buffer.
  std::byte* run_buffer(core::BufferId) const;
  double now() const;  ///< Seconds since the run's start.

 private:
  struct StreamState {
    std::size_t cursor = 0;  // Next (or running) of the stream's instructions.
    bool running = false;    // A communication is under way.
    double start = 0.0;
    double not_before = 0.0;  // A random delay's end.
    CommunicationLane lane;
    std::vector<Operand> reads, writes;
  };

  bool poll_running();
  bool start_communications();
  bool compute_one();
  bool delayed(const StreamState&);
  bool ready(const StreamState&, std::size_t stream, bool computes) const;
  std::int32_t head(const StreamState&, std::size_t stream) const;
  void bind(const FlatInstruction&, StreamState&);
  OperatorContext context_of(const FlatInstruction&, const StreamState&);
  void finish(std::size_t stream, std::int32_t instruction, double end);
  void reset();
  void draw_delay(StreamState&);
  void sample_memory(double time);

  RankProgram program_;
  const core::Job& job_;
  Communicator& communicator_;
  InterpreterOptions options_;
  BufferPool pool_;
  Workspace workspace_;
  int step_ = 0;
  bool recording_ = false;
  std::array<StreamState, core::kStreams> streams_;
  std::vector<std::int32_t> initial_waits_;
  std::vector<std::int32_t> waits_;  // Left, by instruction.
  std::size_t finished_ = 0;
  bool held_back_ = false;  // Something ready waits for its random delay.
  std::mt19937_64 random_;
  std::vector<InstructionRecord> records_;
  std::vector<MemorySample> memory_;
};

}  // namespace orrery::engine
