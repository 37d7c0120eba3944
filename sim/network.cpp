#include "sim/network.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace orrery::sim {

using core::Seconds;

Network::Network(const std::vector<double>& capacities)
    : shares_(capacities), stopped_(capacities.size()), carried_(capacities.size(), 0.0) {}

FlowId Network::start(const std::vector<LinkUse>& uses, double amount,
                      std::optional<double> bound) {
  ORRERY_CHECK(amount > 0, "a flow of nothing");
  int slot = static_cast<int>(flows_.size());
  if (free_.empty()) {
    flows_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  flow(slot) = {.uses = &uses, .amount = amount, .stopped_by = {}, .left = amount};
  shares_.add(slot, uses, bound);
  return FlowId(slot);
}

bool Network::later(const Place& a, const Place& b) {
  return a.ends_at > b.ends_at || (a.ends_at == b.ends_at && a.flow > b.flow);
}

void Network::advance(Stopped& link, Seconds now) {
  link.served += link.rate * (now - link.since).value;
  if (link.flows > 0) link.full += now - link.since;
  link.since = now;
}

/// Takes a flow from where it was stopped, which has been advanced; what is left of it.
double Network::leave(int f, Seconds now) {
  Flow& one = flow(f);
  if (!one.stopped_by) {
    ends_.remove(key_alone(f));
    return std::max(0.0, one.left - one.rate * (now - one.since).value);
  }
  Stopped& link = stopped(*one.stopped_by);
  --link.flows;
  one.joined = ++joins_;  // Its place there is stale.
  return std::max(0.0, one.ends_at - link.served);
}

void Network::join(int f, double left, Seconds now) {
  Flow& one = flow(f);
  one.stopped_by = shares_.bottleneck(f);
  if (!one.stopped_by) {
    one.left = left;
    one.since = now;
    one.rate = shares_.rate(f);
    ends_.set(key_alone(f), now.value + left / one.rate);
    return;
  }
  Stopped& link = stopped(*one.stopped_by);
  one.joined = ++joins_;
  one.ends_at = link.served + left;
  ++link.flows;
  link.places.push_back({one.ends_at, f, one.joined});
  std::push_heap(link.places.begin(), link.places.end(), later);
}

void Network::drop_stale(Stopped& link) {
  const auto stale = [this](const Place& place) { return flow(place.flow).joined != place.joined; };
  const auto live = static_cast<std::size_t>(link.flows);
  // Flows that came and went must not make the heap long.
  constexpr std::size_t kSlack = 16;
  if (link.places.size() > 2 * live + kSlack) {
    std::erase_if(link.places, stale);
    std::make_heap(link.places.begin(), link.places.end(), later);
  }
  while (!link.places.empty() && stale(link.places.front())) {
    std::pop_heap(link.places.begin(), link.places.end(), later);
    link.places.pop_back();
  }
}

void Network::set_end(int l) {
  Stopped& link = stopped(l);
  drop_stale(link);
  if (link.places.empty()) {
    link.served = link.rate = 0;
    ends_.remove(l);
    return;
  }
  const double left = std::max(0.0, link.places.front().ends_at - link.served);
  ends_.set(l, link.since.value + left / link.rate);
}

void Network::settle(Seconds now) {
  if (settled()) return;
  shares_.solve();
  for (const int l : shares_.links()) advance(stopped(l), now);
  for (const int f : shares_.moved()) join(f, leave(f, now), now);
  for (const int l : shares_.links()) {
    stopped(l).rate = shares_.level(l);
    set_end(l);
  }
}

std::optional<Seconds> Network::next_end() const {
  if (ends_.empty() || std::isinf(ends_.least().key)) return std::nullopt;
  return Seconds(ends_.least().key);
}

/// Ends the first flow that a link stops.
int Network::take_first(int l, Seconds end) {
  Stopped& link = stopped(l);
  const int f = link.places.front().flow;
  link.served = link.places.front().ends_at;
  link.full += end - link.since;
  link.since = end;
  --link.flows;
  flow(f).joined = ++joins_;
  set_end(l);
  return f;
}

FlowId Network::end_next() {
  ORRERY_CHECK(!ends_.empty(), "no flow to end");
  const auto [end, key] = ends_.least();
  const auto links = static_cast<int>(stopped_.size());
  const bool of_link = key < links;
  if (!of_link) ends_.remove_least();
  const int f = of_link ? take_first(key, Seconds(end)) : key - links;
  shares_.remove(f);
  for (const LinkUse& use : *flow(f).uses) {
    carried_[static_cast<std::size_t>(use.link)] += use.weight * flow(f).amount;
  }
  free_.push_back(f);
  return FlowId(f);
}

double Network::load(int link) const {
  double sum = 0;
  for (const FairShares::Sharer& sharer : shares_.flows_on(link)) {
    sum += sharer.weight * shares_.rate(sharer.flow);
  }
  return sum;
}

}  // namespace orrery::sim
