// Published plans beside the best that the search finds, on the machines they ran on:
// bench/published-plans.sh.

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>

#include "core/config/read.h"
#include "costmodel/search.h"
#include "study/compare_plans.h"
#include "study/inputs.h"
#include "study/plan_study.h"

namespace {

using namespace orrery;
namespace fs = std::filesystem;

const fs::path kConfigs = fs::path(ORRERY_SOURCE_DIR) / "configs";

struct Published {
  std::string_view plan;  ///< In configs.
  double seconds;         ///< A step, as published or following from what was.
  std::string_view how;
};

// Each plan's file names its source.
constexpr std::array kPublished = {
    Published{"published/megatron-175b-64/plan.toml", 13.75, "measured"},
    Published{"published/megatron-530b-280/plan.toml", 37.83, "measured"},
    Published{"published/megatron-1t-512/plan.toml", 71.49, "measured"},
    Published{"plans/megatron-1t-3072.toml", 102.63, "from TFLOP/s"},
    Published{"published/megatron-76b-1024/plan.toml", 16.06, "from TFLOP/s"},
    Published{"plans/ernie-230b-4d.toml", 512.0 * 512 / 8698, "from tokens/s; batch assumed"},
    Published{"published/llama-2-70b-64/plan.toml", 11.54, "from tokens/s"},
    Published{"published/llama-3-8b-128/plan.toml", 2.92, "from tokens/s; a slower H100"},
    Published{"published/llama-3-70b-64/plan.toml", 10.23, "from tokens/s"},
    Published{"published/llama-3.1-405b-1024/plan.toml", 37.46, "from tokens/s"},
    Published{"published/llama-3.1-405b-16384/plan.toml", 6.7, "from TFLOP/s"},
    Published{"published/mixtral-8x7b-64/plan.toml", 2.9, "from TFLOP/s of its successor"},
};

std::string place(std::size_t faster, std::size_t fitting) {
  return fmt::format("{} of {}", faster + 1, fitting);
}

/// Prints one pair; returns how many times as long as the best plan the published one takes, by
/// simulation; infinity where it does not fit.
double compare(const Published& published) {
  const study::Inputs in = study::read_inputs(kConfigs / published.plan);
  study::ComparedPlan plan =
      study::estimated(std::string(published.plan), in.plan, in.model, in.cluster, in.job);
  study::simulate_and_count(plan, in.model, in.cluster, in.job);
  study::PlanStudyOptions options;
  options.keep = 20;
  options.place = {plan.estimate.step};
  options.conditions.expert_capacity =
      in.plan.dense->expert_capacity;  // What loads are, not a choice.
  const costmodel::SearchResult found = study::study_plans(in.model, in.cluster, in.job, options);
  if (found.ranked.empty()) {
    fmt::print("{}: no plan fits\n", published.plan);
    return 0;
  }
  const costmodel::RankedPlan& best = found.ranked.front();
  const core::Seconds step = study::step_of(best);
  const auto mfu = [](const costmodel::Estimate& e, core::Seconds s) {
    return 100 * e.mfu.value_or(0) * (e.step / s);
  };
  fmt::print("{} on {} ({} devices)\n", in.model.name, in.cluster.name, in.cluster.devices());
  fmt::print("  published   {:<58} {:>8.2f} s {}\n", core::describe(in.plan), published.seconds,
             published.how);
  fmt::print("  the same    {:<58} {:>8.2f} s simulated, MFU {:.0f}%{}, place {}\n", "",
             plan.simulated->value, mfu(plan.estimate, *plan.simulated),
             plan.does_not_fit ? ", does NOT fit" : "",
             place(found.faster.front(), found.candidates - found.do_not_fit));
  fmt::print("  best found  {:<58} {:>8.2f} s simulated, MFU {:.0f}%\n", core::describe(best.plan),
             step.value, mfu(best.estimate, step));
  fmt::print("  why         {}\n\n",
             plan.does_not_fit.value_or(costmodel::why_slower(best.estimate, plan.estimate)));
  std::fflush(stdout);
  if (plan.does_not_fit) return std::numeric_limits<double>::infinity();
  return *plan.simulated / step;
}

}  // namespace

int main() {
  double least = std::numeric_limits<double>::infinity();
  for (const Published& published : kPublished) least = std::min(least, compare(published));
  // Below 1 the search would have missed a plan that people knew.
  fmt::print("published-plans {:.2f}\n", least);
}
