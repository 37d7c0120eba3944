#include "costmodel/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <variant>

#include "core/check/plan_check.h"
#include "core/error.h"
#include "costmodel/dense_estimator.h"
#include "costmodel/sparse_estimator.h"

namespace orrery::costmodel {
namespace {

using core::Seconds;

/// Left out by its lower bound.
struct TooSlow {};
using Verdict = std::variant<TooSlow, Infeasible, Estimate>;

/// The `keep` least times so far. Only ever an upper bound of the final one, so whoever prunes with
/// it prunes nothing that belongs in the answer, whatever the order of the threads.
class Cutoff {
 public:
  explicit Cutoff(std::size_t keep) : keep_(keep) {}

  bool excludes(double seconds) const { return seconds > limit_.load(); }
  void add(double seconds) {
    const std::lock_guard lock(mutex_);
    least_.insert(seconds);
    if (least_.size() > keep_) least_.erase(std::prev(least_.end()));
    if (least_.size() == keep_ && keep_ > 0) limit_.store(*std::prev(least_.end()));
  }

 private:
  std::size_t keep_;
  std::mutex mutex_;
  std::multiset<double> least_;
  std::atomic<double> limit_{std::numeric_limits<double>::infinity()};
};

/// A kind of plan that people would try first.
struct KnownKind {
  const char* name;
  bool (*is)(const core::DensePlan&);
};

constexpr KnownKind kKnownKinds[] = {
    {"data parallel only",
     [](const core::DensePlan& p) { return p.tensor == 1 && p.pipeline == 1 && p.sharding == 1; }},
    {"data parallel with sharded optimizer",
     [](const core::DensePlan& p) {
       return p.tensor == 1 && p.pipeline == 1 && p.sharding > 1 && p.data == 1;
     }},
    {"pipeline only, no tensor parallelism",
     [](const core::DensePlan& p) { return p.tensor == 1 && p.pipeline > 1; }},
    {"tensor and data parallel, no pipeline",
     [](const core::DensePlan& p) { return p.tensor > 1 && p.pipeline == 1; }},
    {"tensor, pipeline and data parallel, nothing sharded",
     [](const core::DensePlan& p) { return p.tensor > 1 && p.pipeline > 1 && p.sharding == 1; }},
    {"tensor, pipeline, data parallel and sharded",
     [](const core::DensePlan& p) { return p.tensor > 1 && p.pipeline > 1 && p.sharding > 1; }},
};
constexpr std::size_t kKinds = std::size(kKnownKinds);

class Search {
 public:
  Search(const core::Model& model, const core::Cluster& cluster, const core::Job& job,
         const SearchOptions& options)
      : model_(model), cluster_(cluster), job_(job), options_(options) {
    if (const auto reason = core::why_not_covered(model, job)) {
      throw core::ConfigError(fmt::format("{}: {}", model.name, *reason));
    }
    if (model.transformer) {
      plans_ = dense_plans(model, cluster, job);
      dense_ = std::make_unique<DenseEstimator>(model, cluster, job);
    } else {
      plans_ = sparse_plans(model, cluster, job);
    }
    verdicts_.resize(plans_.size());
  }

  SearchResult run() {
    judge_all();
    SearchResult result;
    result.candidates = plans_.size();
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < plans_.size(); ++i) {
      if (std::holds_alternative<Estimate>(verdicts_[i])) order.push_back(i);
      if (std::holds_alternative<Infeasible>(verdicts_[i])) ++result.do_not_fit;
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return step(a) < step(b); });
    if (order.size() > options_.keep) order.resize(options_.keep);
    for (const std::size_t i : order) result.ranked.push_back(ranked(i));
    refine(result.ranked);
    if (result.ranked.empty()) {
      result.nothing_fits =
          plans_.empty() ? why_no_plan() : closest([](const core::Plan&) { return true; });
    } else if (dense_) {
      add_alternatives(result);
    }
    return result;
  }

 private:
  void judge_all() {
    const auto hardware = std::max(1u, std::thread::hardware_concurrency());
    const std::size_t threads = options_.threads > 0 ? static_cast<std::size_t>(options_.threads)
                                                     : static_cast<std::size_t>(hardware);
    Cutoff cutoff(options_.keep);
    // Of each known kind the best is wanted too.
    std::vector<std::unique_ptr<Cutoff>> of_kind;
    for (std::size_t k = 0; k < kKinds; ++k) of_kind.push_back(std::make_unique<Cutoff>(1));
    std::atomic<std::size_t> next{0};
    std::vector<std::exception_ptr> failures(threads);
    const auto work = [&](std::size_t thread) {
      try {
        for (std::size_t i = next++; i < plans_.size(); i = next++) {
          verdicts_[i] = judge(plans_[i], cutoff, of_kind);
        }
      } catch (...) {
        failures[thread] = std::current_exception();
      }
    };
    std::vector<std::jthread> pool;
    for (std::size_t t = 1; t < threads; ++t) pool.emplace_back(work, t);
    work(0);
    pool.clear();  // Joins.
    for (const std::exception_ptr& failure : failures) {
      if (failure) std::rethrow_exception(failure);
    }
  }

  Verdict judge(const core::Plan& plan, Cutoff& cutoff,
                std::vector<std::unique_ptr<Cutoff>>& of_kind) const {
    if (!dense_) {
      return std::visit([](auto&& outcome) -> Verdict { return outcome; },
                        estimate_sparse(plan, model_, cluster_, job_));
    }
    const core::DensePlan& dense = *plan.dense;
    if (auto too_large = dense_->does_not_fit(dense)) return *too_large;
    Cutoff* kind = nullptr;
    for (std::size_t k = 0; k < kKinds; ++k) {
      if (kKnownKinds[k].is(dense)) kind = of_kind[k].get();
    }
    const double bound = dense_->passes(dense).lower_bound.value;
    if (cutoff.excludes(bound) && (kind == nullptr || kind->excludes(bound))) return TooSlow{};
    const Estimate estimate = dense_->estimate(dense);
    cutoff.add(estimate.step.value);
    if (kind != nullptr) kind->add(estimate.step.value);
    return estimate;
  }

  Seconds step(std::size_t i) const { return std::get<Estimate>(verdicts_[i]).step; }

  RankedPlan ranked(std::size_t i) const {
    return {plans_[i], std::get<Estimate>(verdicts_[i]), std::nullopt};
  }

  void refine(std::vector<RankedPlan>& plans) const {
    if (!options_.refine) return;
    const std::size_t count = std::min(options_.refined, plans.size());
    for (std::size_t i = 0; i < count; ++i) plans[i].refined = options_.refine(plans[i].plan);
    std::stable_sort(
        plans.begin(), plans.begin() + static_cast<std::ptrdiff_t>(count),
        [](const RankedPlan& a, const RankedPlan& b) { return *a.refined < *b.refined; });
  }

  /// What the plan that comes closest to fitting lacks; empty where none of them is too large.
  template <class Predicate>
  std::string closest(Predicate wanted) const {
    std::optional<std::size_t> best;
    const auto lacking = [&](std::size_t i) {
      const auto& infeasible = std::get<Infeasible>(verdicts_[i]);
      return *infeasible.needed - *infeasible.available;
    };
    for (std::size_t i = 0; i < plans_.size(); ++i) {
      if (!std::holds_alternative<Infeasible>(verdicts_[i]) || !wanted(plans_[i])) continue;
      if (!best || lacking(i) < lacking(*best)) best = i;
    }
    if (!best) return "";
    return "even " + core::describe(plans_[*best]) +
           " does not fit: " + std::get<Infeasible>(verdicts_[*best]).why;
  }

  /// What is wrong with the plainest plan, where none can be lowered.
  std::string why_no_plan() const {
    core::Plan plan;
    const int ranks = cluster_.devices();
    if (dense_) {
      plan.dense = core::DensePlan{.data = ranks, .layers_per_stage = {model_.transformer->layers}};
    } else {
      plan.sparse = core::SparsePlan{.workers = ranks, .servers = ranks, .colocated = true};
    }
    const auto reason = core::why_invalid(plan, model_, job_, ranks);
    return "even " + core::describe(plan) + " cannot be: " + reason.value_or("");
  }

  void add_alternatives(SearchResult& result) const {
    for (const KnownKind& kind : kKnownKinds) {
      std::optional<std::size_t> best;
      for (std::size_t i = 0; i < plans_.size(); ++i) {
        if (!std::holds_alternative<Estimate>(verdicts_[i]) || !kind.is(*plans_[i].dense)) continue;
        if (!best || step(i) < step(*best)) best = i;
      }
      Alternative alternative{kind.name, "", std::nullopt};
      if (best) {
        alternative.best = ranked(*best);
        alternative.verdict =
            why_slower(result.ranked.front().estimate, alternative.best->estimate);
      } else {
        alternative.verdict = closest([&](const core::Plan& plan) { return kind.is(*plan.dense); });
        if (alternative.verdict.empty()) continue;  // The space has no such plan.
      }
      result.alternatives.push_back(std::move(alternative));
    }
  }

  const core::Model& model_;
  const core::Cluster& cluster_;
  const core::Job& job_;
  const SearchOptions& options_;
  std::vector<core::Plan> plans_;
  std::vector<Verdict> verdicts_;
  std::unique_ptr<DenseEstimator> dense_;  // Absent for click-through models.
};

}  // namespace

SearchResult search(const core::Model& model, const core::Cluster& cluster, const core::Job& job,
                    const SearchOptions& options) {
  return Search(model, cluster, job, options).run();
}

std::string why_slower(const Estimate& best, const Estimate& other) {
  const Seconds more = other.step - best.step;
  if (more.value <= 0) return "as fast as the best plan";
  std::string text = fmt::format("{:.2f} times as long: ", other.step / best.step);
  struct Difference {
    TimeTerm term;
    Seconds seconds;
  };
  std::vector<Difference> differences;
  for (int t = 0; t < kTimeTerms; ++t) {
    const auto i = static_cast<std::size_t>(t);
    differences.push_back({static_cast<TimeTerm>(t), other.time[i] - best.time[i]});
  }
  std::stable_sort(differences.begin(), differences.end(),
                   [](const Difference& a, const Difference& b) { return a.seconds > b.seconds; });
  // The largest ones that explain most of the difference.
  Seconds explained;
  std::string separator;
  for (const Difference& d : differences) {
    if (d.seconds.value <= 0 || explained > more * 0.9) break;
    text += fmt::format("{}{} +{:.3g} s", separator, time_term_name(d.term), d.seconds.value);
    explained += d.seconds;
    separator = ", ";
  }
  return text;
}

}  // namespace orrery::costmodel
