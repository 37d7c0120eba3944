#pragma once
// The least plans so far, of a search on several threads: equal whatever the order in which they
// come.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "core/plan.h"
#include "core/units.h"

namespace orrery::costmodel {

/// The `keep` least times so far. Only ever an upper bound of the final one, so whoever prunes with
/// it prunes nothing that belongs in the answer, whatever the order of the threads.
class Cutoff {
 public:
  explicit Cutoff(std::size_t keep) : keep_(keep) {}

  bool excludes(core::Seconds bound) const { return bound.value > limit_.load(); }
  void add(core::Seconds time) {
    if (excludes(time)) return;
    const std::lock_guard lock(mutex_);
    least_.insert(time.value);
    if (least_.size() > keep_) least_.erase(std::prev(least_.end()));
    if (least_.size() == keep_ && keep_ > 0) limit_.store(*std::prev(least_.end()));
  }

 private:
  std::size_t keep_;
  std::mutex mutex_;
  std::multiset<double> least_;
  std::atomic<double> limit_{std::numeric_limits<double>::infinity()};
};

/// A plan with its time, or with the bytes that it lacks, by whatever is to be least.
struct Found {
  double least = 0.0;
  std::uint64_t place = 0;  ///< In the order of the search.
  core::DensePlan plan;

  bool before(const Found& other) const {
    return std::tie(least, place) < std::tie(other.least, other.place);
  }
};

/// The first of those it is offered.
struct FirstFound {
  std::optional<Found> first;
  void offer(double least, std::uint64_t place, const core::DensePlan& plan) {
    if (first && std::tie(first->least, first->place) <= std::tie(least, place)) return;
    first = Found{least, place, plan};
  }
  void offer(const FirstFound& other) {
    if (other.first) offer(other.first->least, other.first->place, other.first->plan);
  }
};

/// The first `keep` of those it is offered, in no order.
class BestFound {
 public:
  explicit BestFound(std::size_t keep) : keep_(keep) {}
  void offer(Found found) {
    if (heap_.size() == keep_ && !found.before(heap_.front())) return;
    heap_.push_back(std::move(found));
    std::push_heap(heap_.begin(), heap_.end(), later);
    if (heap_.size() <= keep_) return;
    std::pop_heap(heap_.begin(), heap_.end(), later);
    heap_.pop_back();
  }
  bool wants(double least, std::uint64_t place) const {
    return keep_ > 0 &&
           (heap_.size() < keep_ ||
            std::tie(least, place) < std::tie(heap_.front().least, heap_.front().place));
  }
  std::vector<Found> take() { return std::move(heap_); }

 private:
  static bool later(const Found& a, const Found& b) { return a.before(b); }
  std::size_t keep_;
  std::vector<Found> heap_;  ///< The latest on top.
};

}  // namespace orrery::costmodel
