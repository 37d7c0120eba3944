#include "app/view_command.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include "app/output_file.h"
#include "core/error.h"
#include "core/trace/rank_timeline.h"
#include "core/trace/trace_file.h"
#include "viz/screenshot.h"
#include "viz/window.h"

namespace orrery::app {
namespace {

namespace fs = std::filesystem;

// "1280x720".
std::pair<int, int> parse_size(const std::string& text) {
  int width = 0;
  int height = 0;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, width);
  if (first.ec == std::errc() && first.ptr != end && *first.ptr == 'x') {
    const auto second = std::from_chars(first.ptr + 1, end, height);
    if (second.ec == std::errc() && second.ptr == end) return {width, height};
  }
  throw core::ConfigError(fmt::format("--size: \"{}\" is not WIDTHxHEIGHT, e.g. 1280x720", text));
}

/// "0 to 3, 7".
std::string steps_text(const std::vector<int>& steps) {
  std::string text;
  for (std::size_t first = 0; first < steps.size();) {
    std::size_t last = first;
    while (last + 1 < steps.size() && steps[last + 1] == steps[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", steps[first]);
    if (last > first) text += fmt::format(" to {}", steps[last]);
    first = last + 1;
  }
  return text;
}

void check_step(int step, const core::Trace& trace, const std::string& file) {
  const std::vector<int> steps = core::recorded_steps(trace);
  if (std::binary_search(steps.begin(), steps.end(), step)) return;
  const std::string there =
      steps.empty() ? "no step"
                    : fmt::format("step{} {}", steps.size() > 1 ? "s" : "", steps_text(steps));
  throw core::ConfigError(fmt::format("--step {}: {} has {}", step, file, there));
}

/// Two traces are shown as prediction and measurement of one thing; errors between others mean little.
void warn_of_difference(const std::vector<core::Trace>& traces,
                        const std::vector<std::string>& files) {
  if (traces.size() < 2) return;
  for (const char* what : {"model", "plan"}) {
    const auto first = traces[0].about.find(what);
    const auto second = traces[1].about.find(what);
    if (first == traces[0].about.end() || second == traces[1].about.end()) continue;
    if (first->second == second->second) continue;
    fmt::print(stderr, "orrery: warning: {} is of {} {}, {} of {} {}\n", files[0], what,
               first->second, files[1], what, second->second);
  }
}

}  // namespace

CLI::App* declare_view(CLI::App& app, ViewFlags& flags) {
  CLI::App* command =
      app.add_subcommand("view", "Shows one trace, or two with the first above the second.");
  command->add_option("traces", flags.traces, "Trace files (.h5, .json, .json.gz)")
      ->required()
      ->expected(1, 2);
  command->add_option("--screenshot", flags.screenshot,
                      "Write a picture (PNG) instead of opening a window; needs no display");
  command->add_option("--size", flags.size, "Of the picture")->capture_default_str();
  command->add_option("--step", flags.step,
                      "Step in the picture, from 0 (default: the last recorded)");
  command->add_flag("--critical-path", flags.critical_path, "Mark it in the picture");
  command->footer(
      "Example:\n  orrery view predicted.h5 measured.h5 --screenshot timelines.png --size "
      "1280x720");
  return command;
}

void run_view(const ViewFlags& flags) {
  viz::ScreenshotOptions options;
  std::tie(options.width, options.height) = parse_size(flags.size);
  options.step = flags.step;
  options.critical_path = flags.critical_path;
  if (flags.screenshot) {
    check_writable(*flags.screenshot, {flags.traces.begin(), flags.traces.end()});
    if (fs::path(*flags.screenshot).extension() != ".png") {
      throw core::ConfigError(*flags.screenshot + ": a picture's name ends in .png");
    }
  }
  std::vector<core::Trace> traces;
  for (const std::string& file : flags.traces) {
    traces.push_back(core::read_trace(file));
    if (flags.step) check_step(*flags.step, traces.back(), file);
  }
  warn_of_difference(traces, flags.traces);
  if (!flags.screenshot) return viz::show(std::move(traces));
  viz::screenshot(traces, *flags.screenshot, options);
  fmt::print("picture: {}\n", *flags.screenshot);
}

}  // namespace orrery::app
