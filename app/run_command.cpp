#include "app/run_command.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>

#include "app/output_file.h"
#include "app/progress.h"
#include "app/step_text.h"
#include "app/table.h"
#include "core/config/read.h"
#include "core/error.h"
#include "core/quantity_text.h"
#include "core/trace/trace_file.h"
#include "engine/execute.h"
#include "engine/mpi_communicator.h"
#include "study/machine_memory.h"
#include "study/predicted_measured.h"
#include "study/simulate_plan.h"

namespace orrery::app {
namespace {

// Lines of loss that a run prints, however long it is.
constexpr int kLossLines = 20;

void print_loss(const engine::StepReport& report, int steps) {
  const int every = std::max(1, steps / kLossLines);
  if (report.step % every != 0 && report.step + 1 != steps) return;
  std::string line = fmt::format("step {:>6}", report.step + 1);
  if (report.loss) line += fmt::format("  loss {:8.5f}", *report.loss);
  if (report.gradient_norm) line += fmt::format("  norm {:8.4f}", *report.gradient_norm);
  fmt::print("{}  {}\n", line, core::text(core::Seconds(report.seconds)));
  std::fflush(stdout);
}

engine::ExecuteOptions options_of(const RunFlags& flags, int steps, Progress& progress) {
  engine::ExecuteOptions options;
  options.steps = steps;
  options.threads = flags.threads;
  options.profile_from = std::max(0, steps - flags.record);
  if (flags.weights_out) options.final_weights = *flags.weights_out;
  options.on_step = [&flags, &progress, steps](const engine::StepReport& report) {
    if (!flags.json) print_loss(report, steps);
    progress.say(fmt::format("step {} of {}", report.step + 1, steps));
  };
  return options;
}

// Operations whose prediction is furthest off, in milliseconds per rank and step.
std::string differences_text(const study::PredictedMeasured& comparison) {
  constexpr std::size_t kRows = 6;
  Table table({"largest differences, per rank and step", "predicted", "measured", "error"});
  for (const auto& o : comparison.operations) {
    if (table.rows() == kRows) break;
    if (o.measured.value == 0) continue;
    table.add({fmt::format("{} ({})", o.operation, core::span_kind_name(o.kind)),
               core::text(o.predicted), core::text(o.measured),
               fmt::format("{:+.1f}%", 100.0 * (o.predicted / o.measured - 1.0))});
  }
  return table.text();
}

void print_json(const study::Inputs& inputs, const core::Trace& trace,
                const study::StepReport& report, const study::PredictedMeasured& comparison) {
  nlohmann::json json = step_json(inputs, report);
  json["predicted_step_seconds"] = comparison.predicted_step.value;
  json["measured_step_seconds"] = comparison.measured_step.value;
  for (const core::StepInfo& step : trace.steps) {
    if (step.loss) json["losses"].push_back(*step.loss);
  }
  fmt::print("{}\n", json.dump(2));
}

}  // namespace

CLI::App* declare_run(CLI::App& app, RunFlags& flags) {
  CLI::App* command = app.add_subcommand("run", "Trains with a plan on this machine.");
  command->add_option("plan", flags.plan, "Plan file (TOML)")->required();
  command->add_option("-o,--output", flags.output,
                      "Write the trace: .h5, or .json or .json.gz for Perfetto");
  command->add_option("--weights-out", flags.weights_out, "Write the final weights (safetensors)");
  command->add_option("--steps", flags.steps, "Steps to train, instead of the job's")
      ->check(CLI::Range(1, 1000000000));
  command->add_option("--record", flags.record, "Steps to keep in the trace, from the last")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command->add_option("--threads", flags.threads, "Cores that a rank's matrix products use")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->add_flag("--json", flags.json, "Print JSON");
  command->footer(
      "The ranks are threads of this process, or processes where mpirun started it.\n"
      "Example:\n  orrery run plan.toml -o measured.h5\n"
      "  mpirun -n 4 orrery run plan.toml -o measured.h5");
  return command;
}

namespace {

/// A plan's files read and lowered, outputs known to be writable.
struct Prepared {
  study::Inputs inputs;
  core::Program program;
  int steps = 0;
};

// What a run of this process's ranks takes: their buffers and the recorded spans.
void check_memory(const RunFlags& flags, const Prepared& prepared, double share) {
  const std::int64_t recorded = std::min(flags.record, prepared.steps);
  const core::Bytes trace = study::trace_memory(recorded * study::executed_spans(prepared.program));
  const core::Bytes buffers = study::run_memory(prepared.program) * share;
  study::require_memory(buffers + trace, "the run", "use a smaller microbatch, model or --record");
}

Prepared prepare(const RunFlags& flags) {
  Prepared prepared;
  prepared.inputs = study::read_inputs(flags.plan);
  const auto& transformer = prepared.inputs.model.transformer;
  if (transformer && transformer->rope_scaled) {
    throw core::ConfigError(prepared.inputs.plan.model +
                            ": rope_scaling: the engine's rotary embedding has no scaling; plan "
                            "and simulate take such a model, run does not");
  }
  std::vector<std::filesystem::path> read = study::input_files(flags.plan, prepared.inputs.plan);
  const core::Job& job = prepared.inputs.job;
  if (job.data) read.emplace_back(job.data->path);
  if (job.initial_weights) read.emplace_back(*job.initial_weights);
  for (const auto& file : {flags.output, flags.weights_out}) {
    if (file) check_writable(*file, read);
  }
  if (flags.output) core::check_trace_name(*flags.output);
  prepared.program = study::lower_plan(prepared.inputs);
  prepared.steps = flags.steps.value_or(prepared.inputs.job.steps);
  const std::string job_file = core::resolve_beside(flags.plan, prepared.inputs.plan.job).string();
  if (const auto why = engine::why_not_runnable(prepared.inputs.job)) {
    throw core::ConfigError(fmt::format("{}: {}", job_file, *why));
  }
  if (!prepared.inputs.job.data) {
    throw core::ConfigError(job_file +
                            ": data: is missing; a run needs [data] with format and path");
  }
  engine::check_inputs(prepared.program, prepared.inputs.job);
  return prepared;
}

void print_head(const RunFlags& flags, const Prepared& prepared, const char* ranks_are) {
  if (flags.json) return;
  fmt::print("{}: {} on {} ranks, as {}\n\n", prepared.inputs.model.name, prepared.program.plan,
             prepared.program.ranks.size(), ranks_are);
  std::fflush(stdout);
}

void finish(const RunFlags& flags, const Prepared& prepared, core::Trace trace) {
  trace.about["cluster"] = prepared.inputs.cluster.name;
  if (flags.output) core::write_trace(trace, *flags.output);
  const study::StepReport report = study::report_step(prepared.inputs, prepared.program, trace);
  const study::PredictedMeasured comparison =
      study::compare_with_prediction(prepared.inputs, prepared.program, trace);
  if (flags.json) return print_json(prepared.inputs, trace, report, comparison);
  fmt::print("\n{}\n{}\nstep time: predicted {}, measured {} (fastest of {}): {:+.1f}%\n",
             step_text(prepared.inputs, report), differences_text(comparison),
             core::text(comparison.predicted_step), core::text(comparison.measured_step),
             trace.steps.size(), 100.0 * comparison.error());
  if (flags.output) fmt::print("trace: {}\n", *flags.output);
  if (flags.weights_out) fmt::print("weights: {}\n", *flags.weights_out);
}

/// @throws SystemError where the run diverged, after all of it has been written.
void require_finite(const core::Trace& trace) {
  for (std::size_t s = 0; s < trace.steps.size(); ++s) {
    if (!trace.steps[s].loss || std::isfinite(*trace.steps[s].loss)) continue;
    throw core::SystemError(fmt::format(
        "the loss is not finite from step {} on; lower the learning rate or clip gradients",
        s + 1));
  }
}

void run_threads(const RunFlags& flags) {
  const Prepared prepared = prepare(flags);
  check_memory(flags, prepared, 1.0);
  print_head(flags, prepared, "threads of this process");
  core::Trace trace;
  {
    Progress progress;
    trace = engine::execute(prepared.program, prepared.inputs.job,
                            options_of(flags, prepared.steps, progress));
  }
  finish(flags, prepared, trace);
  require_finite(trace);
}

#ifdef ORRERY_MPI

// Whatever keeps one process from starting keeps all; the first of those that know why says it.
std::optional<Prepared> prepare_processes(const RunFlags& flags,
                                          const engine::MpiSession& session) {
  std::optional<Prepared> prepared;
  std::exception_ptr failure;
  const double share_here = 1.0 * session.ranks_here() / session.ranks();
  try {
    prepared = prepare(flags);
    const auto ranks = static_cast<int>(prepared->program.ranks.size());
    if (ranks != session.ranks()) {
      throw core::ConfigError(
          fmt::format("{}: the plan has {} ranks, but {} processes were started; use mpirun -n {}",
                      flags.plan, ranks, session.ranks(), ranks));
    }
    check_memory(flags, *prepared, share_here);
  } catch (...) {
    failure = std::current_exception();
  }
  const std::optional<core::Rank> speaker = session.lowest(failure != nullptr);
  if (!speaker) return prepared;
  if (*speaker == session.rank()) std::rethrow_exception(failure);
  return std::nullopt;
}

// Whoever waits for this rank would wait for ever.
[[noreturn]] void abort(engine::MpiSession& session, const char* why, int exit_status) {
  std::fprintf(stderr, "orrery: rank %d: %s\n", session.rank().value, why);
  session.abort(exit_status);
}

void run_processes(const RunFlags& flags) {
  engine::MpiSession session;
  const std::optional<Prepared> prepared = prepare_processes(flags, session);
  if (!prepared) return;
  const bool first = session.rank() == core::Rank(0);
  if (first) print_head(flags, *prepared, "MPI processes");
  std::optional<core::Trace> trace;
  try {
    const auto communicator = session.communicator();
    Progress progress;
    trace = engine::execute_rank(prepared->program, prepared->inputs.job, *communicator,
                                 options_of(flags, prepared->steps, progress));
    if (!trace) return;
    finish(flags, *prepared, *trace);
    require_finite(*trace);
  } catch (const core::ConfigError& error) {
    abort(session, error.what(), 2);
  } catch (const std::exception& error) {
    abort(session, error.what(), 1);
  }
}

#endif

}  // namespace

void run_run(const RunFlags& flags) {
#ifdef ORRERY_MPI
  // One process alone runs all ranks, whoever launched it.
  if (engine::launched_ranks().value_or(1) > 1) return run_processes(flags);
#endif
  run_threads(flags);
}

}  // namespace orrery::app
