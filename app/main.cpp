// The command line: one subcommand per question, errors caught once.

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "app/calibrate_command.h"
#include "app/plan_command.h"
#include "app/run_command.h"
#include "app/simulate_command.h"
#include "app/validate_command.h"
#include "app/view_command.h"
#include "core/error.h"

namespace {

/// Exit statuses of every command.
enum ExitStatus { kSucceeded = 0, kFailed = 1, kBadInput = 2 };

/// One line to stderr. Messages quote what was found in files, which may be any bytes.
int report(std::string what, ExitStatus status) {
  for (char& c : what) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  std::fprintf(stderr, "orrery: %s\n", what.c_str());
  return status;
}

/// The command line's fault in one line. What nobody knows is named before what is missing.
std::string fault(const CLI::App& app, const CLI::ParseError& error) {
  const auto chosen = app.get_subcommands();
  const auto unknown = app.remaining(true);
  if (!chosen.empty()) {
    const std::string& name = chosen.front()->get_name();
    const std::string what =
        unknown.empty() ? error.what() : "\"" + unknown.front() + "\" is unknown";
    return name + ": " + what + " (orrery " + name + " --help)";
  }
  std::string commands;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    commands += (commands.empty() ? "" : ", ") + command->get_name();
  }
  const std::string found = unknown.empty() ? "nothing" : "\"" + unknown.front() + "\"";
  return "found " + found + " where a command is expected: " + commands + " (orrery --help)";
}

/// What was printed may still wait in a buffer, and a full disk shows only when it is written.
int flushed() {
  if (std::fflush(stdout) == 0) return kSucceeded;
  return report(std::string("standard output: cannot write: ") + std::strerror(errno), kFailed);
}

int dispatch(int argc, char** argv) {
  CLI::App app{"Plans, simulates, runs and shows the training of large models.", "orrery"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "orrery " ORRERY_VERSION);
  app.footer(
      "Each command has its own --help with an example.\n"
      "Exit status: 0 success, 1 it ran and failed, 2 bad input.");
  orrery::app::PlanFlags plan;
  orrery::app::SimulateFlags simulate;
  orrery::app::RunFlags run;
  orrery::app::ViewFlags view;
  orrery::app::CalibrateFlags calibrate;
  orrery::app::ValidateFlags validate;
  const CLI::App* plan_command = declare_plan(app, plan);
  const CLI::App* simulate_command = declare_simulate(app, simulate);
  const CLI::App* run_command = declare_run(app, run);
  const CLI::App* view_command = declare_view(app, view);
  const CLI::App* calibrate_command = declare_calibrate(app, calibrate);
  const CLI::App* validate_command = declare_validate(app, validate);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    app.exit(help);
    return flushed();
  } catch (const CLI::ParseError& error) {
    return report(fault(app, error), kBadInput);
  }
  if (*plan_command) run_plan(plan);
  if (*simulate_command) run_simulate(simulate);
  if (*run_command) run_run(run);
  if (*view_command) run_view(view);
  if (*calibrate_command) run_calibrate(calibrate);
  if (*validate_command) run_validate(validate);
  return flushed();
}

}  // namespace

int main(int argc, char** argv) {
  // A file too large for its limit is an error to report, not a reason to die.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return dispatch(argc, argv);
  } catch (const orrery::core::ConfigError& error) {
    return report(error.what(), kBadInput);
  } catch (const std::bad_alloc&) {
    return report("out of memory", kFailed);
  } catch (const std::exception& error) {
    return report(error.what(), kFailed);
  }
}
