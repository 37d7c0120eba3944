#include "app/validate_command.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>

#include "app/validate_text.h"
#include "core/error.h"
#include "study/validate/validate.h"

namespace orrery::app {
namespace {

namespace fs = std::filesystem;

/// The published measurements of the source tree, or of the folder orrery is called in.
fs::path published(const char* name) {
  const fs::path here = fs::path("data/validation") / name;
  return fs::exists(here) ? here : fs::path(ORRERY_SOURCE_DIR) / here;
}

std::vector<study::MeasuredStep> read_all(const std::vector<std::string>& files,
                                          std::vector<std::string>& warnings) {
  std::vector<fs::path> paths(files.begin(), files.end());
  if (paths.empty()) paths.push_back(published("steps.csv"));
  std::vector<study::MeasuredStep> steps;
  for (const fs::path& path : paths) {
    for (std::string& unknown : study::unknown_columns(path)) {
      warnings.push_back(std::move(unknown));
    }
    auto more = study::read_measured_steps(path);
    std::move(more.begin(), more.end(), std::back_inserter(steps));
  }
  return study::without_repeated(std::move(steps), warnings);
}

void check_source(const std::vector<study::MeasuredStep>& steps, const std::string& source) {
  std::string known;
  std::string last;
  for (const study::MeasuredStep& step : steps) {
    if (step.source == source) return;
    if (step.source != last) known += (known.empty() ? "" : ", ") + step.source;
    last = step.source;
  }
  throw core::ConfigError(fmt::format("--source {}: no such source; there are: {}", source, known));
}

}  // namespace

CLI::App* declare_validate(CLI::App& app, ValidateFlags& flags) {
  CLI::App* command = app.add_subcommand(
      "validate", "Holds the cost model against training steps that others measured.");
  command->add_option("files,--data", flags.files,
                      "Tables of measured steps (CSV); data/validation/steps.csv by default");
  command->add_option("--machines", flags.machines,
                      "What their device labels stand for (TOML); "
                      "data/validation/machines.toml by default");
  command->add_option("--frameworks", flags.frameworks,
                      "What frameworks do that rows do not say (TOML); "
                      "data/validation/frameworks.toml by default");
  command->add_option("--source", flags.source, "Only the rows of this source");
  command->add_flag("--rows", flags.rows, "Print each row with its terms");
  command->add_flag("--json", flags.json, "Print JSON");
  command->footer(
      "Example:\n  orrery validate data/validation/steps.csv --source vtrain_ground_truth --rows");
  return command;
}

void run_validate(const ValidateFlags& flags) {
  std::vector<std::string> warnings;
  const auto steps = read_all(flags.files, warnings);
  if (flags.source) check_source(steps, *flags.source);
  const auto given = [](const std::optional<std::string>& file, const char* name) {
    return file ? fs::path(*file) : published(name);
  };
  const study::Conventions conventions{
      study::read_machines(given(flags.machines, "machines.toml")),
      study::read_frameworks(given(flags.frameworks, "frameworks.toml"))};
  for (std::string& doubt : study::doubts_about(steps, conventions)) {
    warnings.push_back(std::move(doubt));
  }
  for (const std::string& warning : warnings) fmt::print(stderr, "warning: {}\n", warning);
  study::ValidateOptions options;
  options.source = flags.source;
  const study::Validation validation = study::validate(steps, conventions, options);
  if (flags.json) {
    fmt::print("{}\n", validation_json(validation).dump(1));
    return;
  }
  if (flags.rows) fmt::print("{}\n", rows_text(validation));
  fmt::print("{}", sources_text(validation));
}

}  // namespace orrery::app
