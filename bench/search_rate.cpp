// How many plans a second the search evaluates: bench/search-rate.sh.
//
// Evaluated is a feasible plan whose step is worked out to the end: memory by stage, passes, pipeline,
// end of step. All plans of the space that fit are evaluated here, none left out by a bound; then
// the search proper finds its optimum. The winner, and a random sample of the plans evaluated, are
// estimated anew, with nothing kept from other plans: time and memory must be the same to the last bit. The time is the whole search's: lowering stages, computing zero-bubble orders and looking at
// the plans that do not fit count too, and nothing is kept from one number of devices to the other.

#include <fmt/core.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "core/config/read.h"
#include "costmodel/dense_estimator.h"
#include "costmodel/plan_space.h"
#include "costmodel/plan_timer.h"
#include "costmodel/search.h"

namespace {

using namespace orrery;
using Clock = std::chrono::steady_clock;

const std::filesystem::path kConfigs = std::filesystem::path(ORRERY_SOURCE_DIR) / "configs";

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Of this process's threads together, so that what else the machine does counts for nothing.
double core_seconds_since(std::clock_t start) {
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

/// Whether plans drawn from all are estimated alone, each by an estimator of its own, as the search
/// has timed them.
bool sample_agrees(const core::Model& model, const core::Cluster& cluster, const core::Job& job) {
  constexpr std::size_t kSample = 100;
  std::vector<core::Plan> plans = costmodel::dense_plans(model, cluster, job);
  std::mt19937 random(1);
  const costmodel::DenseEstimator shared(model, cluster, job);
  costmodel::PlanTimer timer(shared);
  for (std::size_t fitting = 0; fitting < kSample;) {
    const core::DensePlan& plan = *plans[random() % plans.size()].dense;
    timer.turn_to(plan);
    if (timer.memory() > shared.device().memory) continue;
    ++fitting;
    const costmodel::Estimate alone = costmodel::DenseEstimator(model, cluster, job).estimate(plan);
    if (timer.step() != alone.step || timer.memory() != costmodel::total(alone.memory))
      return false;
  }
  return true;
}

struct Rate {
  double evaluations = 0.0, core_seconds = 0.0;
};

/// All plans on one thread, then the optimum on all.
Rate run(const core::Model& model, core::Cluster cluster, const core::Job& job, int devices) {
  core::NodeGroup& nodes = cluster.groups.front();
  nodes.count = devices / nodes.type.devices;
  costmodel::SearchOptions options;
  options.keep = 1;
  options.threads = 1;
  options.exhaustive = true;
  const std::clock_t cores = std::clock();
  const costmodel::SearchResult all = costmodel::search(model, cluster, job, options);
  const double all_seconds = core_seconds_since(cores);
  options.threads = 0;
  options.exhaustive = false;
  const auto start = Clock::now();
  const costmodel::SearchResult best = costmodel::search(model, cluster, job, options);
  const double optimum_seconds = seconds_since(start);

  const costmodel::RankedPlan& winner = best.ranked.front();
  const auto alone = costmodel::estimate(winner.plan, model, cluster, job);
  const bool same = sample_agrees(model, cluster, job) &&
                    std::get<costmodel::Estimate>(alone).step == winner.estimate.step &&
                    core::describe(all.ranked.front().plan) == core::describe(winner.plan);
  const double per_second = static_cast<double>(all.timed) / all_seconds;
  fmt::print("{:>7} {:>10} {:>10} {:>10.2f} {:>12.0f} {:>12.2f}  {} {:.3f} s{}\n", devices,
             all.candidates, all.timed, all_seconds, per_second, optimum_seconds,
             core::describe(winner.plan), winner.estimate.step.value,
             same ? "" : "  NOT what plans alone take");
  if (!same) std::exit(1);
  return {static_cast<double>(all.timed), all_seconds};
}

}  // namespace

int main() {
  const core::Model model = core::read_model(kConfigs / "models/gpt3-175b");
  const core::Cluster cluster = core::read_cluster(kConfigs / "clusters/dgx-a100-64.toml");
  const core::Job job = core::read_job(kConfigs / "jobs/gpt3-175b.toml");
  fmt::print("{:>7} {:>10} {:>10} {:>10} {:>12} {:>12}  {}\n", "devices", "plans", "evaluated",
             "core-s", "per core-s", "optimum in s", "best plan, estimated step");
  Rate sum;
  for (const int devices : {64, 1024}) {
    const Rate rate = run(model, cluster, job, devices);
    sum.evaluations += rate.evaluations;
    sum.core_seconds += rate.core_seconds;
  }
  fmt::print("\nsearch-rate {:.0f}\n", sum.evaluations / sum.core_seconds);
}
