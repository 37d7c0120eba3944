#include "sim/max_min.h"

#include <algorithm>
#include <functional>

#include "core/error.h"

namespace orrery::sim {
namespace {

// Levels closer than this are one level: links that are full together in exact arithmetic are full
// together here too, and equal flows get equal rates. Some hundred roundings of 2^-53.
constexpr double kSameLevel = 1e-13;

// Relative rounding that sums of many rates may show above a capacity.
constexpr double kRounding = 1e-9;

using Entry = std::pair<double, int>;

/// Moves the first entry of a min-heap, whose key has grown, to its place. A link's level grows little
/// at a time, so this is nearly always near: cheaper than taking it out and putting it in again.
void sink_first(std::vector<Entry>& heap) {
  const Entry moving = heap.front();
  std::size_t at = 0;
  for (std::size_t child = 1; child < heap.size(); child = 2 * at + 1) {
    if (child + 1 < heap.size() && heap[child + 1] < heap[child]) ++child;
    if (!(heap[child] < moving)) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = moving;
}

void drop_first(std::vector<Entry>& heap) {
  heap.front() = heap.back();
  heap.pop_back();
  if (!heap.empty()) sink_first(heap);
}

double sum_of_weights(const std::vector<FairShares::Sharer>& sharers) {
  double sum = 0;
  for (const FairShares::Sharer& sharer : sharers) sum += sharer.weight;
  return sum;
}

}  // namespace

FairShares::FairShares(const std::vector<double>& capacities)
    : links_(capacities.size()),
      level_(capacities.size(), kEmpty),
      filling_(capacities.size()),
      islands_(capacities.size()),
      island_seen_(capacities.size(), 0) {
  for (std::size_t l = 0; l < capacities.size(); ++l) links_[l].capacity = capacities[l];
}

/// Nothing changes below a rate of a flow that came or went; flows of the same level change together.
void FairShares::touch(int l, double rate) {
  touched_.push_back(l);
  floor_ = std::min(floor_, rate * (1 - 10 * kSameLevel));
}

void FairShares::add(int f, const std::vector<LinkUse>& uses, std::optional<double> bound) {
  ORRERY_CHECK(bound || !uses.empty(), "a flow has neither a link nor a bound");
  const auto index = static_cast<std::size_t>(f);
  if (index >= few_.size()) {
    few_.resize(index + 1);
    uses_.resize(index + 1);
    bound_.resize(index + 1);
    briefs_.resize(index + 1);
  }
  const bool small =
      !uses.empty() && uses.size() <= 2 &&
      std::all_of(uses.begin(), uses.end(), [](const LinkUse& use) { return use.weight == 1; });
  few_[index] =
      small ? Few{uses.front().link, uses.size() == 2 ? uses.back().link : Few::kNone} : Few{};
  uses_[index] = &uses;
  bound_[index] = bound;
  briefs_[index] = {};
  if (uses.empty()) loose_.push_back(f);
  for (const LinkUse& use : uses) {
    ORRERY_CHECK(use.weight > 0, "a flow uses a link with no weight");
    Link& l = link(use.link);
    l.sharers.push_back({f, use.weight});
    l.weight += use.weight;
    if (use.weight != 1) ++l.unlike_one;
    if (bound) ++l.bounded;
    // No link is full before all its flows have as much as this.
    touch(use.link, l.capacity / l.weight);
  }
  if (uses.empty()) return;
  if (bound) touch(uses.front().link, *bound);
  for (const LinkUse& use : uses) islands_.join(uses.front().link, use.link);
  islands_.enter(uses.front().link);
}

void FairShares::remove(int f) {
  // One that never had a rate leaves things as they were before it came.
  const double was = brief(f).stop == kNew ? 0.0 : rate(f);
  for (const LinkUse& use : uses(f)) {
    Link& l = link(use.link);
    const auto at = std::find_if(l.sharers.begin(), l.sharers.end(),
                                 [f](const Sharer& sharer) { return sharer.flow == f; });
    *at = l.sharers.back();
    l.sharers.pop_back();
    l.weight -= use.weight;
    // Less than what was taken away: rounding may be much of it.
    if (l.weight < use.weight) l.weight = sum_of_weights(l.sharers);
    if (use.weight != 1) --l.unlike_one;
    if (bound_[static_cast<std::size_t>(f)]) --l.bounded;
    touch(use.link, was);
  }
  if (uses(f).empty()) {
    std::erase(loose_, f);
  } else {
    islands_.leave(uses(f).front().link);
  }
}

std::optional<int> FairShares::bottleneck(int f) const {
  const int stop = briefs_[static_cast<std::size_t>(f)].stop;
  if (stop < 0) return std::nullopt;
  return stop;
}

/// Joins the links of an island by the flows that are there now.
void FairShares::look_anew(int island) {
  for (const int l : islands_.dissolve(island)) {
    for (const Sharer& sharer : link(l).sharers) {
      const std::vector<LinkUse>& all = uses(sharer.flow);
      if (all.front().link != l) continue;
      for (const LinkUse& use : all) islands_.join(l, use.link);
      islands_.enter(l);
    }
  }
}

/// The links that a change may reach.
void FairShares::collect_component() {
  component_.clear();
  for (const int l : touched_) {
    if (islands_.stale(islands_.of(l))) look_anew(islands_.of(l));
  }
  for (const int l : touched_) {
    const auto island = static_cast<std::size_t>(islands_.of(l));
    if (island_seen_[island] == round_) continue;
    island_seen_[island] = round_;
    for (const int member : islands_.links(islands_.of(l))) {
      if (level(member) >= floor_) component_.push_back(member);
    }
  }
}

void FairShares::begin_filling() {
  heap_.clear();
  bounds_.clear();
  const double floor = floor_;
  for (const int l : component_) {
    const Link& full = link(l);
    Filling one{.left = full.capacity};
    const bool alike = full.unlike_one == 0;
    const bool bounded = full.bounded > 0;
    for (const Sharer& sharer : full.sharers) {
      Brief& of = brief(sharer.flow);
      if (of.rate < floor) {
        one.left -= sharer.weight * of.rate;
        of.stopped = round_;
        continue;
      }
      if (!alike) one.moving_weight += sharer.weight;
      ++one.moving;
      if (bounded && bound_[static_cast<std::size_t>(sharer.flow)]) {
        bounds_.emplace_back(*bound_[static_cast<std::size_t>(sharer.flow)], sharer.flow);
      }
    }
    if (alike) one.moving_weight = one.moving;
    filling(l) = one;
    if (one.moving > 0) heap_.emplace_back(one.left / one.moving_weight, l);
  }
  for (const int l : component_) level_[static_cast<std::size_t>(l)] = kEmpty;
  if (!fills_at_once()) std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
  std::sort(bounds_.begin(), bounds_.end());
}

void FairShares::take_off(int link, double weight, double rate) {
  Filling& l = filling(link);
  l.left -= weight * rate;
  l.moving_weight -= weight;
  --l.moving;
}

void FairShares::stop(int f, double rate, int at) {
  Brief& one = brief(f);
  one.stopped = round_;
  one.rate = rate;
  // Of the link that is full all flows stop: fill_up() takes them off together.
  const Few few = few_[static_cast<std::size_t>(f)];
  if (few.first != Few::kMany) {
    if (few.first != at) take_off(few.first, 1, rate);
    if (few.second != at && few.second != Few::kNone) take_off(few.second, 1, rate);
  } else {
    for (const LinkUse& use : uses(f)) {
      if (use.link != at) take_off(use.link, use.weight, rate);
    }
  }
  if (one.stop == at) return;
  one.stop = at;
  moved_.push_back(f);
}

/// s_l with the moving flows' weights added anew: subtraction leaves nothing exact of a small rest,
/// unless all are 1.
double FairShares::exact_level(int l) const {
  const Link& one = links_[static_cast<std::size_t>(l)];
  const Filling& now = filling_[static_cast<std::size_t>(l)];
  if (one.unlike_one == 0) return now.left / now.moving;
  double weight = 0;
  for (const Sharer& sharer : one.sharers) {
    if (moves(sharer.flow)) weight += sharer.weight;
  }
  return now.left / weight;
}

/// The link on top of the heap once its entry is fresh; it stays there.
std::optional<std::pair<double, int>> FairShares::next_full_link() {
  while (!heap_.empty()) {
    const auto [pushed, l] = heap_.front();
    if (filling(l).moving == 0) {
      drop_first(heap_);
      continue;
    }
    double level = filling(l).left / filling(l).moving_weight;
    if (level <= pushed * (1 + kSameLevel)) {
      level = exact_level(l);
      if (level <= pushed * (1 + kSameLevel)) return std::pair(level, l);
    }
    heap_.front().first = level;
    sink_first(heap_);
  }
  return std::nullopt;
}

/// Stops all flows that a link still has.
void FairShares::fill_up(int l, double level) {
  level_[static_cast<std::size_t>(l)] = level;
  for (const Sharer& sharer : link(l).sharers) {
    if (moves(sharer.flow)) stop(sharer.flow, level, l);
  }
  Filling& full = filling(l);
  full.left -= level * full.moving_weight;
  full.moving_weight = 0;
  full.moving = 0;
}

/// Whether all links are full together, as in a collective of equals: no order among them then.
bool FairShares::fills_at_once() const {
  return bounds_.empty() && std::all_of(heap_.begin(), heap_.end(), [&](const auto& entry) {
           return entry.first == heap_.front().first;
         });
}

void FairShares::fill() {
  if (fills_at_once()) {
    for (const auto& [level, l] : heap_) {
      if (filling(l).moving > 0) fill_up(l, level);
    }
    return;
  }
  double level = 0;
  std::size_t next_bound = 0;
  for (;;) {
    while (next_bound < bounds_.size() && !moves(bounds_[next_bound].second)) ++next_bound;
    const auto full = next_full_link();
    const bool bounded = next_bound < bounds_.size();
    if (!full && !bounded) return;
    if (bounded && (!full || bounds_[next_bound].first <= full->first)) {
      level = std::max(level, bounds_[next_bound].first);
      stop(bounds_[next_bound].second, bounds_[next_bound].first, kBound);
      continue;
    }
    if (full->first > level * (1 + kSameLevel)) level = full->first;
    fill_up(full->second, level);
  }
}

void FairShares::check_capacities() const {
  for (const int l : component_) {
    const auto i = static_cast<std::size_t>(l);
    ORRERY_CHECK(filling_[i].left >= -kRounding * links_[i].capacity, "a link above its capacity");
  }
}

void FairShares::solve() {
  ++round_;
  moved_.clear();
  collect_component();
  touched_.clear();
  for (const int f : loose_) stop(f, *bound_[static_cast<std::size_t>(f)], kBound);
  loose_.clear();
  begin_filling();
  floor_ = kEmpty;
  fill();
  check_capacities();
}

}  // namespace orrery::sim
