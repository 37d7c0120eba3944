#include "study/disturbances.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/network/topology.h"
#include "core/quantity_text.h"
#include "costmodel/predict_durations.h"

namespace orrery::study {
namespace {

using core::Perturbations;

std::string in_steps(const core::StepRange& steps) {
  if (steps.last) return fmt::format(" in steps {} to {}", steps.first, *steps.last);
  return steps.first == 0 ? "" : fmt::format(" from step {} on", steps.first);
}

struct Without {
  std::string what;
  Perturbations others;
};

bool alike(const core::Straggler& a, const core::Straggler& b) {
  return a.slowdown == b.slowdown && a.steps.first == b.steps.first && a.steps.last == b.steps.last;
}

std::string ranks_text(const std::vector<core::Rank>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {} computes", ranks.front().value);
  return fmt::format("ranks {} to {} ({}) compute", ranks.front().value, ranks.back().value,
                     ranks.size());
}

void add_stragglers(const Perturbations& all, std::vector<Without>& list) {
  std::vector<core::Straggler> kinds;
  for (const core::Straggler& one : all.stragglers) {
    const auto same = [&](const core::Straggler& other) { return alike(one, other); };
    if (std::none_of(kinds.begin(), kinds.end(), same)) kinds.push_back(one);
  }
  for (const core::Straggler& kind : kinds) {
    Without& one = list.emplace_back(Without{{}, all});
    one.others.stragglers.clear();
    std::vector<core::Rank> ranks;
    for (const core::Straggler& straggler : all.stragglers) {
      if (alike(straggler, kind)) {
        ranks.push_back(straggler.rank);
      } else {
        one.others.stragglers.push_back(straggler);
      }
    }
    one.what = fmt::format("{} {:g} times as long{}", ranks_text(ranks), kind.slowdown,
                           in_steps(kind.steps));
  }
}

template <class T>
void erase_at(std::vector<T>& list, std::size_t i) {
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
}

/// All perturbations, each left out in turn.
std::vector<Without> each_left_out(const Perturbations& all, const core::Topology& topology) {
  std::vector<Without> list;
  add_stragglers(all, list);
  for (std::size_t i = 0; i < all.slow_links.size(); ++i) {
    const core::SlowLink& slow = all.slow_links[i];
    list.push_back({fmt::format("{} has {} of its bandwidth{}", topology.name(slow.link),
                                core::percent(slow.share), in_steps(slow.steps)),
                    all});
    erase_at(list.back().others.slow_links, i);
  }
  for (std::size_t i = 0; i < all.failed_links.size(); ++i) {
    const core::FailedLink& failed = all.failed_links[i];
    list.push_back(
        {fmt::format("{} has failed{}", topology.name(failed.link), in_steps(failed.steps)), all});
    erase_at(list.back().others.failed_links, i);
  }
  for (std::size_t i = 0; i < all.background.size(); ++i) {
    const core::BackgroundFlow& flow = all.background[i];
    list.push_back(
        {fmt::format("others send from rank {} to {}", flow.from.value, flow.to.value), all});
    erase_at(list.back().others.background, i);
  }
  if (all.jitter) {
    list.push_back(
        {fmt::format("compute times vary by {}", core::percent(all.jitter->deviation)), all});
    list.back().others.jitter.reset();
  }
  return list;
}

}  // namespace

std::vector<DisturbanceCost> disturbance_costs(const Inputs& inputs, const core::Program& program,
                                               const sim::SimulateOptions& options) {
  const core::Durations durations =
      costmodel::predict_durations(program, inputs.cluster, inputs.job);
  const core::Topology topology(inputs.cluster);
  const auto step_with = [&](Perturbations perturbations) {
    sim::SimulateOptions plain = options;
    plain.perturbations = std::move(perturbations);
    plain.memory_counters = false;
    plain.progress = nullptr;
    return sim::simulate_step(program, durations, inputs.cluster, plain);
  };
  const core::Seconds all = step_with(options.perturbations);
  std::vector<DisturbanceCost> costs;
  for (Without& one : each_left_out(options.perturbations, topology)) {
    costs.push_back({one.what, all - step_with(std::move(one.others))});
  }
  std::stable_sort(costs.begin(), costs.end(),
                   [](const auto& a, const auto& b) { return a.costs > b.costs; });
  return costs;
}

std::vector<sim::LinkGain> link_gains(const Inputs& inputs, const core::Program& program,
                                      const sim::SimulateOptions& options, int most) {
  return sim::link_gains(program, costmodel::predict_durations(program, inputs.cluster, inputs.job),
                         inputs.cluster, options, most);
}

}  // namespace orrery::study
