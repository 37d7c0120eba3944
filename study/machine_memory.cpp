#include "study/machine_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <vector>

#include "core/check/memory_profile.h"
#include "core/error.h"
#include "core/quantity_text.h"
#include "sim/fold.h"
#include "sim/fold_choice.h"

namespace orrery::study {

namespace {

// Measured with a simulated step of 2.4 million spans: 220 bytes in columns, 430 while they are
// written as JSON.
constexpr double kBytesPerSpan = 450;

/// The number after `key` in a file of "key number ..." lines; the first number for an empty key.
std::optional<double> number_in(const char* file, const std::string& key) {
  std::ifstream lines(file);
  for (std::string word; lines >> word;) {
    if (key.empty()) {
      lines.clear();
      lines.seekg(0);
    } else if (word != key) {
      continue;
    }
    double number = 0;
    if (lines >> number) return number;
    return std::nullopt;  // "max": no bound.
  }
  return std::nullopt;
}

std::int64_t instructions_of(const core::Role& role) {
  std::int64_t count = 0;
  for (const core::Call& call : role.step) {
    count += static_cast<std::int64_t>(role.blocks[call.block.index()].instructions.size());
  }
  return count;
}

/// Sum over `ranks` of what each one's role has.
template <class Value>
Value sum_of_roles(const core::Program& program, const std::vector<core::Rank>& ranks,
                   Value (*of_role)(const core::Role&)) {
  std::vector<Value> values;
  for (const core::Role& role : program.roles) values.push_back(of_role(role));
  Value sum{};
  for (const core::Rank rank : ranks) sum += values[program.ranks[rank.index()].role.index()];
  return sum;
}

core::Bytes peak_of(const core::Role& role) { return core::memory_profile(role).peak; }

}  // namespace

std::optional<core::Bytes> available_memory() {
  const auto kibibytes = number_in("/proc/meminfo", "MemAvailable:");
  if (!kibibytes) return std::nullopt;
  core::Bytes available(*kibibytes * 1024.0);
  const auto most = number_in("/sys/fs/cgroup/memory.max", "");
  const auto taken = number_in("/sys/fs/cgroup/memory.current", "");
  if (most && taken) available = std::min(available, core::Bytes(std::max(0.0, *most - *taken)));
  return available;
}

void require_memory(core::Bytes needed, const std::string& what, const std::string& advice) {
  const auto available = available_memory();
  if (!available || needed <= *available) return;
  throw core::SystemError(fmt::format("{} needs {} of memory, but {} are available; {}", what,
                                      core::text(needed), core::text(*available), advice));
}

std::int64_t simulated_spans(const core::Program& program, const core::Cluster& cluster,
                             const sim::SimulateOptions& options) {
  const sim::Networks networks(cluster, options.perturbations, options.steps);
  const sim::Fold fold = sim::fold_for(program, cluster, networks, options);
  return options.steps * sum_of_roles<std::int64_t>(program, fold.simulated, instructions_of);
}

std::int64_t executed_spans(const core::Program& program) {
  return sum_of_roles<std::int64_t>(program, sim::every_rank(program).simulated, instructions_of);
}

core::Bytes trace_memory(std::int64_t spans) {
  constexpr std::int64_t kMostSpans = std::numeric_limits<std::int32_t>::max();
  if (spans > kMostSpans) {
    throw core::SystemError(fmt::format(
        "a trace of {} spans is beyond the {} that a trace can number; record fewer steps", spans,
        kMostSpans));
  }
  return core::Bytes(kBytesPerSpan * static_cast<double>(spans));
}

core::Bytes run_memory(const core::Program& program) {
  return sum_of_roles<core::Bytes>(program, sim::every_rank(program).simulated, peak_of);
}

}  // namespace orrery::study
