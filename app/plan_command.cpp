#include "app/plan_command.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/output_file.h"
#include "app/plan_text.h"
#include "app/progress.h"
#include "core/config/read.h"
#include "core/config/write.h"
#include "core/error.h"
#include "study/plan_study.h"

namespace orrery::app {
namespace {

namespace fs = std::filesystem;

// As the plan's file names it: relative to its folder, so that a tree of files can be moved.
std::string beside(const fs::path& plan_file, const std::string& path) {
  return fs::proximate(fs::absolute(path), fs::absolute(plan_file).parent_path()).string();
}

void write_chosen(const PlanFlags& flags, core::Plan plan) {
  plan.name = fs::path(*flags.output).stem().string();
  plan.model = beside(*flags.output, flags.model);
  plan.cluster = beside(*flags.output, flags.cluster);
  plan.job = beside(*flags.output, flags.job);
  core::write_plan(*flags.output, plan);
}

costmodel::SearchResult search(const PlanQuestion& question, const PlanFlags& flags) {
  Progress progress;
  progress.say("searching plans");
  study::PlanStudyOptions options;
  options.keep = static_cast<std::size_t>(std::max(flags.top, flags.pick));
  options.simulated = static_cast<std::size_t>(flags.simulate);
  options.progress = [&](std::size_t number) {
    progress.say(fmt::format("simulating plan {} of {}", number, flags.simulate));
  };
  costmodel::SearchResult result =
      study::study_plans(question.model, question.cluster, question.job, options);
  if (result.ranked.empty()) throw core::SystemError("no plan fits: " + result.nothing_fits);
  return result;
}

}  // namespace

CLI::App* declare_plan(CLI::App& app, PlanFlags& flags) {
  CLI::App* command =
      app.add_subcommand("plan", "Finds the fastest layouts of a job on a cluster.");
  command
      ->add_option("--model", flags.model,
                   "Hugging Face config.json or its folder, or a click-through model (TOML)")
      ->required();
  command->add_option("--cluster", flags.cluster, "Cluster file (TOML)")->required();
  command->add_option("--job", flags.job, "Job file (TOML)")->required();
  command->add_option("--top", flags.top, "Plans to show")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--simulate", flags.simulate, "Plans to simulate, of the best by estimate")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  command->add_flag("--explain", flags.explain,
                    "Say what the best plan's time and memory consist of, and why others lost");
  command->add_option("-o,--output", flags.output, "Write the plan (TOML)");
  command->add_option("--pick", flags.pick, "Which of the plans to write, 1 is the best")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_flag("--json", flags.json, "Print JSON");
  command->footer(
      "Example:\n  orrery plan --model configs/models/llama-3-70b \\\n"
      "    --cluster configs/clusters/dgx-h100-64.toml \\\n"
      "    --job configs/jobs/llama-3-70b.toml --top 5 -o plan.toml");
  return command;
}

void run_plan(const PlanFlags& flags) {
  const PlanQuestion question{core::read_model(flags.model), core::read_cluster(flags.cluster),
                              core::read_job(flags.job)};
  if (flags.output) check_writable(*flags.output);
  costmodel::SearchResult result = search(question, flags);
  const auto pick = static_cast<std::size_t>(flags.pick);
  if (pick > result.ranked.size()) {
    throw core::ConfigError(
        fmt::format("--pick {}: only {} plans fit", pick, result.ranked.size()));
  }
  if (flags.output) write_chosen(flags, result.ranked[pick - 1].plan);
  result.ranked.resize(std::min(result.ranked.size(), static_cast<std::size_t>(flags.top)));
  if (flags.json) {
    fmt::print("{}\n", plans_json(question, result).dump(2));
    return;
  }
  fmt::print("{} on {} ({} devices)\n\n{}", question.model.name, question.cluster.name,
             question.cluster.devices(), plans_text(question, result));
  if (flags.explain) fmt::print("{}", explanation_text(question, result));
  if (flags.output) fmt::print("\nplan: {}\n", *flags.output);
}

}  // namespace orrery::app
