#include "engine/execute.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "core/error.h"
#include "engine/gather_results.h"
#include "engine/in_process_communicator.h"
#include "engine/measured_trace.h"
#include "engine/rank_run.h"
#include "engine/safetensors.h"
#include "engine/store.h"
#include "engine/token_data.h"
#include "engine/weights.h"

namespace orrery::engine {

namespace {

using core::Rank;

// The job's data, where the program reads any and the caller gave none.
class OpenedData {
 public:
  OpenedData(const core::Program& program, const core::Job& job, const ExecuteOptions& options) {
    sources_.tokens = options.tokens;
    const std::int64_t vocab = vocabulary_of(program);
    if (sources_.tokens == nullptr && vocab > 0) {
      tokens_ = open_tokens(job, vocab);
      sources_.tokens = tokens_.get();
    }
    if (program.embedding) {
      samples_ = open_samples(program, job);
      sources_.samples = samples_.get();
    }
  }
  const DataSources& sources() const { return sources_; }

 private:
  std::unique_ptr<TokenSource> tokens_;
  std::unique_ptr<CriteoFile> samples_;
  DataSources sources_;
};

std::optional<std::filesystem::path> weights_file(const core::Job& job,
                                                  const ExecuteOptions& options) {
  if (options.initial_weights) return options.initial_weights;
  if (job.initial_weights) return *job.initial_weights;
  return std::nullopt;
}

void require_runnable(const core::Job& job) {
  if (const auto why = why_not_runnable(job)) throw core::ConfigError("the job's " + *why);
}

// Remembers what the first rank that failed threw.
class FirstFailure {
 public:
  void note(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(failure);
  }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr failure_;
};

std::string words_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "unknown failure";
  }
}

void run_rank(RankRun& run, Communicator& communicator, FirstFailure& first) {
  try {
    run.run();
  } catch (...) {
    const std::exception_ptr failure = std::current_exception();
    first.note(failure);
    communicator.abort("rank " + std::to_string(communicator.rank().value) +
                       " failed: " + words_of(failure));
  }
}

void write_final(const core::Program& program, const std::vector<std::unique_ptr<RankRun>>& runs,
                 const std::filesystem::path& path) {
  WeightAssembly assembly(program);
  for (std::size_t r = 0; r < runs.size(); ++r) {
    if (!runs[r]->shard_rows().empty()) {
      assembly.add_shard(*program.embedding, program.ranks[r].server.value(),
                         runs[r]->shard_rows());
    }
    if (runs[r]->parameters() == nullptr || !WeightAssembly::needs(program, Rank(r))) continue;
    assembly.add(program, Rank(r), runs[r]->parameters());
  }
  write_safetensors(path, assembly.take(), {{"format", "pt"}});
}

}  // namespace

std::optional<std::string> why_not_runnable(const core::Job& job) {
  if (job.precision == core::DType::Float32) return std::nullopt;
  return "precision: \"" + std::string(core::dtype_name(job.precision)) +
         "\" can be planned and simulated, but runs are in \"float32\" only";
}

void check_inputs(const core::Program& program, const core::Job& job,
                  const ExecuteOptions& options) {
  require_runnable(job);
  const OpenedData data(program, job, options);
  const auto path = weights_file(job, options);
  if (!path) return;
  const SafetensorsFile file(*path);
  check_weights(program, file);
  if (program.embedding) Store::check(*program.embedding, file);
}

core::Trace execute(const core::Program& program, const core::Job& job,
                    const ExecuteOptions& options) {
  require_runnable(job);
  const OpenedData data(program, job, options);
  const auto epoch = std::chrono::steady_clock::now();
  // What other ranks' threads reach into outlives all threads: the fabric, the communicators and
  // the ranks' buffers.
  InProcessFabric fabric(static_cast<int>(program.ranks.size()));
  std::vector<std::unique_ptr<Communicator>> communicators;
  std::vector<std::unique_ptr<RankRun>> runs;
  for (int r = 0; r < fabric.ranks(); ++r) {
    communicators.push_back(fabric.communicator(Rank(r)));
    runs.push_back(std::make_unique<RankRun>(program, job, *communicators.back(), options,
                                             data.sources(), epoch));
  }
  FirstFailure failure;
  std::vector<std::thread> threads;
  try {
    for (std::size_t r = 0; r < runs.size(); ++r) {
      threads.emplace_back([&, r] { run_rank(*runs[r], *communicators[r], failure); });
    }
  } catch (const std::system_error&) {
    // Those that have started wait for the others.
    const std::string why = "no more than " + std::to_string(threads.size()) + " of " +
                            std::to_string(runs.size()) + " ranks' threads can be started";
    failure.note(std::make_exception_ptr(core::SystemError(why)));
    communicators.front()->abort(why);
  }
  for (std::thread& thread : threads) thread.join();
  failure.rethrow();
  if (options.final_weights) write_final(program, runs, *options.final_weights);
  std::vector<RankResult> results;
  for (const auto& run : runs) results.push_back(run->take_result());
  return measured_trace(program, results);
}

std::optional<core::Trace> execute_rank(const core::Program& program, const core::Job& job,
                                        Communicator& communicator, const ExecuteOptions& options) {
  require_runnable(job);
  const auto ranks = static_cast<int>(program.ranks.size());
  if (communicator.ranks() != ranks) {
    throw core::ConfigError("the plan needs " + std::to_string(ranks) +
                            " ranks, the job was started with " +
                            std::to_string(communicator.ranks()));
  }
  const OpenedData data(program, job, options);
  RankRun run(program, job, communicator, options, data.sources(), common_epoch(communicator));
  run.run();
  if (options.final_weights) {
    std::optional<WeightAssembly> assembly = gather_weights(program, communicator, run);
    if (assembly) write_safetensors(*options.final_weights, assembly->take(), {{"format", "pt"}});
  }
  const std::vector<RankResult> results = gather_results(communicator, run.take_result());
  if (results.empty()) return std::nullopt;
  return measured_trace(program, results);
}

std::int64_t vocabulary_of(const core::Program& program) {
  // The loss knows the vocabulary exactly, the embedding with its padding.
  std::int64_t exact = 0;
  std::int64_t padded = 0;
  for (const core::Role& role : program.roles) {
    for (const core::Block& block : role.blocks) {
      for (const core::Instruction& instruction : block.instructions) {
        const auto* compute = std::get_if<core::Compute>(&instruction.operation);
        if (compute == nullptr) continue;
        if (const auto* loss = std::get_if<core::CrossEntropyStatistics>(&compute->op)) {
          exact = loss->vocab;
        } else if (const auto* embed = std::get_if<core::Embed>(&compute->op)) {
          padded = embed->vocab_rows * embed->vocab_ways;
        }
      }
    }
  }
  return exact > 0 ? exact : padded;
}

}  // namespace orrery::engine
