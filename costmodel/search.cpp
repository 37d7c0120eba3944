#include "costmodel/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <thread>
#include <variant>

#include "core/check/plan_check.h"
#include "core/error.h"
#include "costmodel/best_plans.h"
#include "costmodel/dense_estimator.h"
#include "costmodel/known_plans.h"
#include "costmodel/plan_timer.h"
#include "costmodel/sparse_estimator.h"

namespace orrery::costmodel {
namespace {

using core::Seconds;

/// Runs work(thread, item) for each item, items in order, on all threads.
template <class Work>
void on_threads(std::size_t threads, std::size_t items, Work work) {
  std::atomic<std::size_t> next{0};
  std::vector<std::exception_ptr> failures(threads);
  const auto run = [&](std::size_t thread) {
    try {
      for (std::size_t i = next++; i < items; i = next++) work(thread, i);
    } catch (...) {
      failures[thread] = std::current_exception();
    }
  };
  std::vector<std::jthread> pool;
  for (std::size_t t = 1; t < threads; ++t) pool.emplace_back(run, t);
  run(0);
  pool.clear();  // Joins.
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

std::size_t thread_count(const SearchOptions& options) {
  if (options.threads > 0) return static_cast<std::size_t>(options.threads);
  return std::max(1U, std::thread::hardware_concurrency());
}

/// Sorts the first `refined` by the time that options.refine gives them.
void refine(std::vector<RankedPlan>& plans, const SearchOptions& options) {
  if (!options.refine) return;
  const std::size_t count = std::min(options.refined, plans.size());
  for (std::size_t i = 0; i < count; ++i) plans[i].refined = options.refine(plans[i].plan);
  std::stable_sort(
      plans.begin(), plans.begin() + static_cast<std::ptrdiff_t>(count),
      [](const RankedPlan& a, const RankedPlan& b) { return *a.refined < *b.refined; });
}

core::Plan plan_of(const core::DensePlan& dense) {
  core::Plan plan;
  plan.dense = dense;
  return plan;
}

std::string even_plan_does_not_fit(const core::Plan& plan, const Infeasible& infeasible) {
  return "even " + core::describe(plan) + " does not fit: " + infeasible.why;
}

/// What is wrong with the plainest plan that is as was asked for, where none can be lowered.
std::string why_no_plan(const core::Model& model, const core::Cluster& cluster,
                        const core::Job& job, const PlanConditions& conditions) {
  core::Plan plan;
  const int ranks = cluster.devices();
  if (model.transformer) {
    plan.dense = plainest_plan(*model.transformer, ranks, conditions);
  } else {
    plan.sparse = core::SparsePlan{.workers = ranks, .servers = ranks, .colocated = true};
  }
  const auto reason = core::why_invalid(plan, model, job, ranks);
  if (!reason) return "the search's plan space has none that is as was asked for";
  return "even " + core::describe(plan) + " cannot be: " + *reason;
}

class DenseSearch {
 public:
  DenseSearch(const core::Model& model, const core::Cluster& cluster, const core::Job& job,
              const SearchOptions& options)
      : model_(model),
        cluster_(cluster),
        job_(job),
        options_(options),
        estimator_(model, cluster, job),
        space_(model, cluster, job, estimator_, options.conditions),
        corners_(space_.corners()),
        bounds_(corners_.size()),
        memory_(std::min(options.memory.value_or(estimator_.device().memory),
                         estimator_.device().memory)),
        node_devices_(cluster.node_type(0).devices),
        cutoff_(options.keep) {
    for (std::size_t k = 0; k < kKnownPlans; ++k)
      cutoff_of_kind_.push_back(std::make_unique<Cutoff>(1));
    for (const Seconds time : options.place) slowest_placed_ = std::max(slowest_placed_, time);
    for (std::size_t t = 0; t < thread_count(options); ++t) {
      workers_.push_back(std::make_unique<Worker>(estimator_, options));
    }
  }

  SearchResult run() {
    on_threads(workers_.size(), corners_.size(),
               [&](std::size_t thread, std::size_t corner) { look_at(*workers_[thread], corner); });
    std::vector<std::size_t> order(corners_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return bounds_[a].least < bounds_[b].least;
    });
    on_threads(workers_.size(), order.size(),
               [&](std::size_t thread, std::size_t i) { time(*workers_[thread], order[i]); });
    return answer();
  }

 private:
  /// A plan that fits: its place within its corner, and its lower bound.
  struct Fitting {
    std::uint32_t place;
    Seconds bound;
  };

  /// The plans of a corner that fit, and their least lower bounds; infinite where there is none.
  struct CornerBounds {
    std::vector<Fitting> fitting;  ///< In order.
    Seconds least{std::numeric_limits<double>::infinity()};
    std::array<Seconds, kKnownPlans> of_kind;
    CornerBounds() { of_kind.fill(least); }
  };

  /// A plan that may belong in the answer.
  struct Wanted {
    core::DensePlan plan;
    std::uint64_t place = 0;
    KnownPlans kinds;
  };

  /// What one thread finds.
  struct Worker {
    Worker(const DenseEstimator& estimator, const SearchOptions& options)
        : timer(estimator), best(options.keep), faster(options.place.size()) {}
    PlanTimer timer;
    std::vector<Wanted> wanted;  ///< Of the corner that is timed, with what the timer kept of them.
    std::vector<PlanTimer::Kept> kept;
    BestFound best;
    std::array<FirstFound, kKnownPlans> best_of_kind;
    FirstFound closest;  ///< Of those that do not fit.
    std::array<FirstFound, kKnownPlans> closest_of_kind;
    std::size_t candidates = 0, do_not_fit = 0, timed = 0;
    std::vector<std::size_t> faster;  ///< By SearchOptions::place.

    /// Whether a plan that lacks at least so much may be the one that comes closest to fitting.
    bool may_come_closer(core::Bytes lacking, const KnownPlans& kinds) const {
      const auto may = [&](const FirstFound& found) {
        return !found.first || lacking.value <= found.first->least;
      };
      if (may(closest)) return true;
      for (std::size_t k = 0; k < kKnownPlans; ++k) {
        if (kinds[k] && may(closest_of_kind[k])) return true;
      }
      return false;
    }
  };

  /// Calls use(plan, place in the order of the search) for the plans of a corner; it says whether the
  /// plan fits.
  template <class Use>
  void each_plan(std::size_t corner, Use use) const {
    std::uint64_t place = static_cast<std::uint64_t>(corner) << 32U;
    space_.visit(corners_[corner], [&](const core::DensePlan& plan) { return use(plan, place++); });
  }

  void look_at(Worker& worker, std::size_t corner) {
    CornerBounds& bounds = bounds_[corner];
    worker.timer.forget_many();
    each_plan(corner, [&](const core::DensePlan& plan, std::uint64_t place) {
      worker.timer.turn_to(plan);
      const KnownPlans kinds = known_plans(plan, node_devices_);
      ++worker.candidates;
      const auto too_large = [&](core::Bytes least) {
        return least > memory_ && !worker.may_come_closer(least - memory_, kinds);
      };
      if (too_large(worker.timer.persistent()) || too_large(worker.timer.least_memory())) {
        ++worker.do_not_fit;
        return false;
      }
      const core::Bytes lacking = worker.timer.memory() - memory_;
      if (lacking.value > 0) {
        ++worker.do_not_fit;
        worker.closest.offer(lacking.value, place, plan);
        for (std::size_t k = 0; k < kKnownPlans; ++k) {
          if (kinds[k]) worker.closest_of_kind[k].offer(lacking.value, place, plan);
        }
        return false;
      }
      const Seconds bound = worker.timer.lower_bound();
      bounds.fitting.push_back({static_cast<std::uint32_t>(place), bound});
      bounds.least = std::min(bounds.least, bound);
      for (std::size_t k = 0; k < kKnownPlans; ++k) {
        if (kinds[k]) bounds.of_kind[k] = std::min(bounds.of_kind[k], bound);
      }
      return true;
    });
  }

  /// Whether a plan with this bound may be in the answer, whatever its kind.
  bool may_be_asked_for(Seconds bound) const {
    return options_.exhaustive || !cutoff_.excludes(bound) || bound < slowest_placed_;
  }

  /// Whether a plan of these kinds with this bound may be in the answer.
  bool may_belong(Seconds bound, const KnownPlans& kinds) const {
    if (may_be_asked_for(bound)) return true;
    for (std::size_t k = 0; k < kKnownPlans; ++k) {
      if (kinds[k] && !cutoff_of_kind_[k]->excludes(bound)) return true;
    }
    return false;
  }

  bool may_belong(const CornerBounds& bounds) const {
    if (std::isinf(bounds.least.value)) return false;
    if (may_be_asked_for(bounds.least)) return true;
    for (std::size_t k = 0; k < kKnownPlans; ++k) {
      const Seconds bound = bounds.of_kind[k];
      if (!std::isinf(bound.value) && !cutoff_of_kind_[k]->excludes(bound)) return true;
    }
    return false;
  }

  /// The corner's plans that may belong in the answer are found first and timed together.
  void time(Worker& worker, std::size_t corner) {
    if (!may_belong(bounds_[corner])) return;
    worker.timer.forget_many();
    worker.wanted.clear();
    worker.kept.clear();
    auto next = bounds_[corner].fitting.begin();
    const auto end = bounds_[corner].fitting.end();
    each_plan(corner, [&](const core::DensePlan& plan, std::uint64_t place) {
      if (next == end || next->place != static_cast<std::uint32_t>(place)) return false;
      const Seconds bound = next++->bound;
      const KnownPlans kinds = known_plans(plan, node_devices_);
      if (!may_belong(bound, kinds)) return true;
      worker.timer.turn_to(plan);
      worker.wanted.push_back({plan, place, kinds});
      worker.kept.push_back(worker.timer.keep());
      return true;
    });
    worker.timer.finish(worker.kept);
    for (std::size_t i = 0; i < worker.wanted.size(); ++i) {
      offer(worker, worker.wanted[i], worker.timer.step(worker.kept[i]));
    }
  }

  void offer(Worker& worker, const Wanted& wanted, Seconds step) {
    ++worker.timed;
    for (std::size_t i = 0; i < options_.place.size(); ++i) {
      if (step < options_.place[i]) ++worker.faster[i];
    }
    cutoff_.add(step);
    if (worker.best.wants(step.value, wanted.place)) {
      worker.best.offer({step.value, wanted.place, wanted.plan});
    }
    for (std::size_t k = 0; k < kKnownPlans; ++k) {
      if (!wanted.kinds[k]) continue;
      cutoff_of_kind_[k]->add(step);
      worker.best_of_kind[k].offer(step.value, wanted.place, wanted.plan);
    }
  }

  SearchResult answer() {
    SearchResult result;
    result.faster.resize(options_.place.size());
    std::vector<Found> best;
    FirstFound closest;
    for (const auto& worker : workers_) {
      result.candidates += worker->candidates;
      result.do_not_fit += worker->do_not_fit;
      result.timed += worker->timed;
      std::transform(worker->faster.begin(), worker->faster.end(), result.faster.begin(),
                     result.faster.begin(), std::plus());
      closest.offer(worker->closest);
      for (Found& found : worker->best.take()) best.push_back(std::move(found));
    }
    std::sort(best.begin(), best.end(), [](const auto& a, const auto& b) { return a.before(b); });
    if (best.size() > options_.keep) best.resize(options_.keep);
    for (const Found& found : best) result.ranked.push_back(ranked(found.plan));
    refine(result.ranked, options_);
    if (result.ranked.empty()) {
      result.nothing_fits = closest.first
                                ? does_not_fit(*closest.first)
                                : why_no_plan(model_, cluster_, job_, options_.conditions);
    } else {
      add_alternatives(result);
    }
    return result;
  }

  RankedPlan ranked(const core::DensePlan& plan) const {
    return {plan_of(plan), estimator_.estimate(plan), std::nullopt};
  }

  std::string does_not_fit(const Found& found) const {
    return even_plan_does_not_fit(plan_of(found.plan),
                                  estimator_.too_large(estimator_.fullest(found.plan), memory_));
  }

  void add_alternatives(SearchResult& result) const {
    for (std::size_t k = 0; k < kKnownPlans; ++k) {
      FirstFound best, closest;
      for (const auto& worker : workers_) {
        best.offer(worker->best_of_kind[k]);
        closest.offer(worker->closest_of_kind[k]);
      }
      Alternative alternative{std::string(known_plan_names()[k]), "", std::nullopt};
      if (best.first) {
        alternative.best = ranked(best.first->plan);
        alternative.verdict =
            why_slower(result.ranked.front().estimate, alternative.best->estimate);
      } else if (closest.first) {
        alternative.verdict = does_not_fit(*closest.first);
      } else {
        continue;  // The space has no such plan.
      }
      result.alternatives.push_back(std::move(alternative));
    }
  }

  const core::Model& model_;
  const core::Cluster& cluster_;
  const core::Job& job_;
  const SearchOptions& options_;
  DenseEstimator estimator_;
  DensePlanSpace space_;
  std::vector<PlanCorner> corners_;
  std::vector<CornerBounds> bounds_;
  core::Bytes memory_;  ///< That a plan may need.
  int node_devices_;
  Cutoff cutoff_;
  Seconds slowest_placed_{-1};  ///< Of SearchOptions::place; less than any step where it is empty.
  std::vector<std::unique_ptr<Cutoff>> cutoff_of_kind_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

/// Each plan is estimated: there are few.
SearchResult search_sparse(const core::Model& model, const core::Cluster& cluster,
                           const core::Job& job, const SearchOptions& options) {
  const std::vector<core::Plan> plans = sparse_plans(model, cluster, job);
  std::vector<std::optional<Outcome>> outcomes(plans.size());
  on_threads(thread_count(options), plans.size(), [&](std::size_t, std::size_t i) {
    outcomes[i] = estimate_sparse(plans[i], model, cluster, job);
  });
  SearchResult result;
  result.candidates = result.timed = plans.size();
  std::optional<std::size_t> closest;
  const auto lacking = [&](std::size_t i) {
    const auto& infeasible = std::get<Infeasible>(*outcomes[i]);
    return *infeasible.needed - *infeasible.available;
  };
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (const auto* estimate = std::get_if<Estimate>(&*outcomes[i])) {
      result.ranked.push_back({plans[i], *estimate, std::nullopt});
      continue;
    }
    ++result.do_not_fit;
    if (!closest || lacking(i) < lacking(*closest)) closest = i;
  }
  std::stable_sort(result.ranked.begin(), result.ranked.end(),
                   [](const auto& a, const auto& b) { return a.estimate.step < b.estimate.step; });
  for (const Seconds time : options.place) {
    result.faster.push_back(static_cast<std::size_t>(
        std::count_if(result.ranked.begin(), result.ranked.end(),
                      [&](const RankedPlan& r) { return r.estimate.step < time; })));
  }
  if (result.ranked.size() > options.keep) result.ranked.resize(options.keep);
  refine(result.ranked, options);
  if (!result.ranked.empty()) return result;
  result.nothing_fits =
      closest ? even_plan_does_not_fit(plans[*closest], std::get<Infeasible>(*outcomes[*closest]))
              : why_no_plan(model, cluster, job, {});
  return result;
}

}  // namespace

SearchResult search(const core::Model& model, const core::Cluster& cluster, const core::Job& job,
                    const SearchOptions& options) {
  if (const auto reason = core::why_not_covered(model, job)) {
    throw core::ConfigError(fmt::format("{}: {}", model.name, *reason));
  }
  if (!model.transformer) return search_sparse(model, cluster, job, options);
  return DenseSearch(model, cluster, job, options).run();
}

}  // namespace orrery::costmodel
