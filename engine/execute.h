#pragma once
// Runs a Program for real and returns what happened: the other interpreter is sim's simulate().

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "core/job.h"
#include "core/program.h"
#include "core/trace.h"
#include "engine/communicator.h"
#include "engine/token_source.h"

namespace orrery::engine {

/// A finished step.
struct StepReport {
  int step = 0;  ///< From 0.
  std::optional<double> loss{};
  std::optional<double> gradient_norm{};  ///< Before clipping.
  double seconds = 0.0;
};

struct ExecuteOptions {
  const TokenSource* tokens = nullptr;  ///< Where the job's data are not used.
  std::optional<int> steps{};           ///< Instead of the job's.
  /// Safetensors file with Hugging Face's names, instead of the job's; drawn from the job's seed
  /// where neither names one.
  std::optional<std::filesystem::path> initial_weights{};
  std::optional<std::filesystem::path> final_weights{};  ///< Written when the last step has ended.
  /// Called after every step by the first rank that knows the loss, on that rank's thread.
  std::function<void(const StepReport&)> on_step{};
  bool profile = true;   ///< Record spans and memory.
  int profile_from = 0;  ///< First step to record.
  /// Of each rank's matrix products. A rank is one core, as the cost model sees it; more threads
  /// are OpenMP's, which wait by spinning unless OMP_WAIT_POLICY=passive.
  int threads = 1;

  // For tests.
  bool poison = false;                        ///< Fill what is allocated with NaN.
  std::optional<std::uint64_t> delay_seed{};  ///< Random delays and order: RankInterpreter.
};

/// What the engine does not do of what a job may ask for, or what the job lacks, beginning with the
/// job's key: "precision: ..."; nullopt when it can be run.
std::optional<std::string> why_not_runnable(const core::Job&);

/// Opens the data and the weights that a run would read and holds them against the program. What is
/// not found here is found when it is read: a token beyond the vocabulary, a damaged sample.
/// @throws ConfigError naming the file and what is wrong with it.
void check_inputs(const core::Program&, const core::Job&, const ExecuteOptions& = {});

/// Runs the program with one thread per rank of this process. The trace holds the recorded steps'
/// spans, every step's times and loss, and per rank the counter "live memory" (bytes), whose
/// largest value compares with core::memory_profile.
/// @throws whatever the first rank that failed threw: ConfigError for bad weights or data,
/// SystemError otherwise.
core::Trace execute(const core::Program&, const core::Job&, const ExecuteOptions& = {});

/// Runs the communicator's rank of the program; every process of the job calls it. Rank 0 returns
/// the trace of all ranks.
/// @throws as execute(); the caller then ends the job (MPI_Abort).
std::optional<core::Trace> execute_rank(const core::Program&, const core::Job&, Communicator&,
                                        const ExecuteOptions& = {});

/// Largest token + 1 that the program's embedding or loss allows; 0 for a program without tokens.
std::int64_t vocabulary_of(const core::Program&);

}  // namespace orrery::engine
