#include "sim/max_min.h"

#include <algorithm>
#include <functional>

#include "core/error.h"

namespace orrery::sim {
namespace {

// Levels closer than this are one level: links that are full together in exact arithmetic are full
// together here too, and equal flows get equal rates. Some hundred roundings of 2^-53.
constexpr double kSameLevel = 1e-13;

}  // namespace

void MaxMinProblem::clear() {
  capacity.clear();
  flow_begin.assign(1, 0);
  uses.clear();
  bound.clear();
}

int MaxMinProblem::add_link(double link_capacity) {
  capacity.push_back(link_capacity);
  return static_cast<int>(capacity.size()) - 1;
}

int MaxMinProblem::add_flow(const std::vector<LinkUse>& flow_uses,
                            std::optional<double> flow_bound) {
  uses.insert(uses.end(), flow_uses.begin(), flow_uses.end());
  flow_begin.push_back(static_cast<int>(uses.size()));
  bound.push_back(flow_bound);
  return flows() - 1;
}

void MaxMinSolver::prepare(const MaxMinProblem& problem) {
  const std::size_t flows = problem.bound.size();
  const std::size_t links = problem.capacity.size();
  rates_.assign(flows, 0.0);
  fixed_.assign(flows, 0);
  left_ = problem.capacity;
  moving_weight_.assign(links, 0.0);
  moving_.assign(links, 0);
  for (const LinkUse& use : problem.uses) {
    ORRERY_CHECK(use.weight > 0, "a flow uses a link with no weight");
    moving_weight_[static_cast<std::size_t>(use.link)] += use.weight;
    ++moving_[static_cast<std::size_t>(use.link)];
  }
  sharers_begin_.assign(links + 1, 0);
  for (std::size_t l = 0; l < links; ++l) sharers_begin_[l + 1] = sharers_begin_[l] + moving_[l];
  sharers_.resize(problem.uses.size());
  std::vector<int> next(sharers_begin_.begin(), sharers_begin_.end() - 1);
  for (std::size_t f = 0; f < flows; ++f) {
    for (int u = problem.flow_begin[f]; u < problem.flow_begin[f + 1]; ++u) {
      const LinkUse& use = problem.uses[static_cast<std::size_t>(u)];
      int& at = next[static_cast<std::size_t>(use.link)];
      sharers_[static_cast<std::size_t>(at++)] = {static_cast<int>(f), use.weight};
    }
  }
  heap_.clear();
  for (std::size_t l = 0; l < links; ++l) {
    if (moving_[l] > 0) heap_.emplace_back(left_[l] / moving_weight_[l], static_cast<int>(l));
  }
  std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
  bounds_.clear();
  for (std::size_t f = 0; f < flows; ++f) {
    if (problem.bound[f]) bounds_.emplace_back(*problem.bound[f], static_cast<int>(f));
  }
  std::sort(bounds_.begin(), bounds_.end());
}

void MaxMinSolver::fix(const MaxMinProblem& problem, int flow, double rate) {
  const auto f = static_cast<std::size_t>(flow);
  rates_[f] = rate;
  fixed_[f] = 1;
  for (int u = problem.flow_begin[f]; u < problem.flow_begin[f + 1]; ++u) {
    const LinkUse& use = problem.uses[static_cast<std::size_t>(u)];
    const auto l = static_cast<std::size_t>(use.link);
    left_[l] -= use.weight * rate;
    moving_weight_[l] -= use.weight;
    --moving_[l];
  }
}

/// s_l with the moving flows' weights added anew: subtraction leaves nothing exact of a small rest.
double MaxMinSolver::exact_level(int link) const {
  const auto l = static_cast<std::size_t>(link);
  double weight = 0;
  for (int s = sharers_begin_[l]; s < sharers_begin_[l + 1]; ++s) {
    const Sharer& sharer = sharers_[static_cast<std::size_t>(s)];
    if (!fixed_[static_cast<std::size_t>(sharer.flow)]) weight += sharer.weight;
  }
  return left_[l] / weight;
}

/// The link on top of the heap once its entry is fresh; it stays there.
std::optional<std::pair<double, int>> MaxMinSolver::next_full_link() {
  while (!heap_.empty()) {
    const auto [pushed, link] = heap_.front();
    if (moving_[static_cast<std::size_t>(link)] == 0) {
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      heap_.pop_back();
      continue;
    }
    const auto l = static_cast<std::size_t>(link);
    double level = left_[l] / moving_weight_[l];
    if (level <= pushed * (1 + kSameLevel)) {
      level = exact_level(link);
      if (level <= pushed * (1 + kSameLevel)) return std::pair(level, link);
    }
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    heap_.back().first = level;
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }
  return std::nullopt;
}

const std::vector<double>& MaxMinSolver::solve(const MaxMinProblem& problem) {
  prepare(problem);
  double level = 0;
  std::size_t next_bound = 0;
  for (;;) {
    while (next_bound < bounds_.size() &&
           fixed_[static_cast<std::size_t>(bounds_[next_bound].second)]) {
      ++next_bound;
    }
    const auto full = next_full_link();
    const bool bounded = next_bound < bounds_.size();
    if (!full && !bounded) break;
    if (bounded && (!full || bounds_[next_bound].first <= full->first)) {
      level = std::max(level, bounds_[next_bound].first);
      fix(problem, bounds_[next_bound].second, bounds_[next_bound].first);
      continue;
    }
    if (full->first > level * (1 + kSameLevel)) level = full->first;
    const auto l = static_cast<std::size_t>(full->second);
    for (int s = sharers_begin_[l]; s < sharers_begin_[l + 1]; ++s) {
      const int flow = sharers_[static_cast<std::size_t>(s)].flow;
      if (!fixed_[static_cast<std::size_t>(flow)]) fix(problem, flow, level);
    }
  }
  for (std::size_t f = 0; f < fixed_.size(); ++f) {
    ORRERY_CHECK(fixed_[f], "a flow has neither a link nor a bound");
  }
  return rates_;
}

}  // namespace orrery::sim
