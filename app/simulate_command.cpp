#include "app/simulate_command.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "app/disturbances_text.h"
#include "app/output_file.h"
#include "app/progress.h"
#include "app/step_text.h"
#include "core/config/read.h"
#include "core/quantity_text.h"
#include "core/trace/trace_file.h"
#include "study/simulate_plan.h"

namespace orrery::app {
namespace {

// Up to here every rank is simulated; beyond, one for all that do the same, unless asked otherwise.
constexpr std::size_t kEveryRank = 64;

}  // namespace

CLI::App* declare_simulate(CLI::App& app, SimulateFlags& flags) {
  CLI::App* command =
      app.add_subcommand("simulate", "Plays a plan and says how long a step takes.");
  command->add_option("plan", flags.plan, "Plan file (TOML)")->required();
  command->add_option("-o,--output", flags.output,
                      "Write the trace: .h5, or .json or .json.gz for Perfetto");
  command->add_option("--steps", flags.steps, "Steps to simulate")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command->add_flag("--all-ranks", flags.all_ranks,
                    fmt::format("Simulate every rank, not one for all that do the same at the same "
                                "time (the default beyond {} ranks)",
                                kEveryRank));
  command->add_option("--perturb", flags.perturb,
                      "File (TOML) of what disturbs the step: stragglers, slow and failed links, "
                      "others' traffic, jitter");
  command
      ->add_option("--link-gains", flags.link_gains,
                   "Say what the step would save if links were twice as fast, for so many classes "
                   "of links that are full for longest")
      ->check(CLI::Range(1, 1000));
  command->add_flag("--json", flags.json, "Print JSON");
  command->footer(
      "Example:\n  orrery simulate plan.toml -o predicted.h5\n"
      "  orrery simulate plan.toml --perturb slow.toml --link-gains 5");
  return command;
}

void run_simulate(const SimulateFlags& flags) {
  const study::Inputs inputs = study::read_inputs(flags.plan);
  if (flags.output) {
    std::vector<std::filesystem::path> read = study::input_files(flags.plan, inputs.plan);
    if (flags.perturb) read.emplace_back(*flags.perturb);
    check_writable(*flags.output, read);
    core::check_trace_name(*flags.output);
  }
  const core::Program program = study::lower_plan(inputs);
  core::Trace trace;
  Disturbances disturbances;
  {
    Progress progress;
    sim::SimulateOptions options;
    options.steps = flags.steps;
    options.folded = !flags.all_ranks && program.ranks.size() > kEveryRank;
    if (flags.perturb) {
      options.perturbations = core::read_perturbations(*flags.perturb, inputs.cluster);
    }
    options.progress = [&](double share) { progress.say("simulating " + core::percent(share)); };
    trace = study::simulate_plan(inputs, program, options);
    if (flags.output) {
      progress.say("writing " + *flags.output);
      core::write_trace(trace, *flags.output);
    }
    if (flags.perturb) {
      progress.say("simulating without each disturbance");
      disturbances.costs = study::disturbance_costs(inputs, program, options);
    }
    if (flags.link_gains > 0) {
      progress.say("simulating with faster links");
      disturbances.links = study::link_gains(inputs, program, options, flags.link_gains);
    }
  }
  const study::StepReport report = study::report_step(inputs, program, trace);
  disturbances.step = report.length;
  if (flags.perturb) disturbances.waited = core::waited_for(trace, report.step);
  if (flags.json) {
    nlohmann::json json = step_json(inputs, report);
    json["plan"] = program.plan;
    json["ranks"] = program.ranks.size();
    add_disturbances(json, disturbances);
    if (flags.output) json["trace"] = *flags.output;
    fmt::print("{}\n", json.dump(2));
    return;
  }
  fmt::print("{} on {}: {}, simulated\n\n{}", inputs.model.name, inputs.cluster.name, program.plan,
             step_text(inputs, report) + disturbances_text(disturbances));
  if (flags.output) fmt::print("\ntrace: {} ({} spans)\n", *flags.output, trace.spans.size());
}

}  // namespace orrery::app
