// The command line: one subcommand per question, errors caught once.

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include "app/calibrate_command.h"
#include "app/plan_command.h"
#include "app/run_command.h"
#include "app/simulate_command.h"
#include "app/view_command.h"
#include "core/error.h"

namespace {

/// Exit statuses of every command.
enum ExitStatus { kSucceeded = 0, kFailed = 1, kBadInput = 2 };

int report(const std::exception& error, ExitStatus status) {
  std::fprintf(stderr, "orrery: %s\n", error.what());
  return status;
}

// What is wrong with the command line, in one line.
std::string complaint(const CLI::App& app, int argc, char** argv, const CLI::ParseError& error) {
  std::string commands;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (argc > 1 && command->get_name() == argv[1]) {
      return command->get_name() + ": " + error.what() + " (orrery " + command->get_name() +
             " --help)";
    }
    commands += (commands.empty() ? "" : ", ") + command->get_name();
  }
  const std::string found = argc > 1 ? "\"" + std::string(argv[1]) + "\"" : "nothing";
  return "found " + found + " where a command is expected: " + commands + " (orrery --help)";
}

int dispatch(int argc, char** argv) {
  CLI::App app{"Plans, simulates, runs and shows the training of large models.", "orrery"};
  app.require_subcommand(1);
  app.footer(
      "Each command has its own --help with an example.\n"
      "Exit status: 0 success, 1 it ran and failed, 2 bad input.");
  orrery::app::PlanFlags plan;
  orrery::app::SimulateFlags simulate;
  orrery::app::RunFlags run;
  orrery::app::ViewFlags view;
  orrery::app::CalibrateFlags calibrate;
  const CLI::App* plan_command = declare_plan(app, plan);
  const CLI::App* simulate_command = declare_simulate(app, simulate);
  const CLI::App* run_command = declare_run(app, run);
  const CLI::App* view_command = declare_view(app, view);
  const CLI::App* calibrate_command = declare_calibrate(app, calibrate);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    app.exit(help);
    return kSucceeded;
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "orrery: %s\n", complaint(app, argc, argv, error).c_str());
    return kBadInput;
  }
  if (*plan_command) run_plan(plan);
  if (*simulate_command) run_simulate(simulate);
  if (*run_command) run_run(run);
  if (*view_command) run_view(view);
  if (*calibrate_command) run_calibrate(calibrate);
  if (std::fflush(stdout) != 0) {
    throw orrery::core::SystemError("standard output: " + std::string(std::strerror(errno)));
  }
  return kSucceeded;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return dispatch(argc, argv);
  } catch (const orrery::core::ConfigError& error) {
    return report(error, kBadInput);
  } catch (const std::exception& error) {
    return report(error, kFailed);
  }
}
