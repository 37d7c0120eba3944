// The command line: one subcommand per question, errors caught once.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

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

int run(int argc, char** argv) {
  CLI::App app{"Plans, simulates, runs and shows the training of large models.", "orrery"};
  app.require_subcommand(1);
  app.footer(
      "Each command has its own --help with an example.\n"
      "Exit status: 0 success, 1 it ran and failed, 2 bad input.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kSucceeded : kBadInput;
  }
  return kSucceeded;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const orrery::core::ConfigError& error) {
    return report(error, kBadInput);
  } catch (const std::exception& error) {
    return report(error, kFailed);
  }
}
