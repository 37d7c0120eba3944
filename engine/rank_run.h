#pragma once
// One rank's whole run: weights, steps, and what is kept of them.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/collective.h"
#include "engine/execute.h"
#include "engine/rank_interpreter.h"
#include "engine/safetensors.h"

namespace orrery::engine {

/// What a rank has seen, as plain arrays (they travel to rank 0).
struct RankResult {
  std::vector<InstructionRecord> records;
  std::vector<MemorySample> memory;
  std::vector<double> step_start, step_end;
  std::vector<float> loss;  ///< One per step, or empty.
};

/// Blocks until the messages that `done` asks for have arrived.
void wait_until(Communicator&, const std::function<bool()>& done);

/// What ranks exchange to wait for each other. When one fails, threads of others may still reach
/// into it, so it outlives them all.
struct Arrival {
  std::vector<core::Rank> everyone;
  float arrived = 1.0F;
  CollectiveRun exchange;
};
/// Returns when every rank has called it.
void synchronize(Communicator&, const core::Program&, Arrival&);

class RankRun {
 public:
  /// Allocates the rank's buffers. Everything given outlives it.
  RankRun(const core::Program&, const core::Job&, Communicator&, const ExecuteOptions&, DataSources,
          std::chrono::steady_clock::time_point epoch);

  /// Initial weights and all steps. `report` after each, where this rank has the loss.
  void run();

  RankResult take_result();
  const RankInterpreter& interpreter() const { return interpreter_; }
  /// The flat parameter buffer; null for a role without.
  const float* parameters() const;
  /// The rows that the rank serves; empty for a role without.
  std::span<const float> shard_rows() const;

 private:
  void set_weights();
  void set_parameters(const SafetensorsFile*);
  void set_shard(const SafetensorsFile*);
  std::span<float> run_floats(core::BufferId) const;
  void keep(int step, double start, double end);

  const core::Program& program_;
  const core::Job& job_;
  Communicator& communicator_;
  const ExecuteOptions& options_;
  Arrival arrival_;
  RankInterpreter interpreter_;
  bool reports_ = false;
  RankResult result_;
};

}  // namespace orrery::engine
