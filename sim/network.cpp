#include "sim/network.h"

#include <algorithm>

#include "core/error.h"

namespace orrery::sim {
namespace {

// Relative rounding that sums of many rates may show above a capacity.
constexpr double kRounding = 1e-9;

}  // namespace

Network::Network(std::vector<double> capacities) : links_(capacities.size()) {
  for (std::size_t l = 0; l < capacities.size(); ++l) links_[l].capacity = capacities[l];
}

FlowId Network::start(core::Seconds now, const std::vector<LinkUse>& uses, double amount,
                      std::optional<double> bound) {
  ORRERY_CHECK(amount > 0, "a flow of nothing");
  int slot = static_cast<int>(flows_.size());
  if (free_.empty()) {
    flows_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  Flow& flow = flows_[static_cast<std::size_t>(slot)];
  flow.uses = &uses;
  flow.amount = flow.left = amount;
  flow.rate = 0;
  flow.since = now;
  flow.bound = bound;
  flow.active = true;
  for (const LinkUse& use : uses) {
    links_[static_cast<std::size_t>(use.link)].flows.push_back(slot);
  }
  touched_.push_back(slot);
  return FlowId(slot);
}

/// One flow of each link suffices: the others are found through the link.
void Network::touch(const Flow& flow) {
  for (const LinkUse& use : *flow.uses) {
    const LinkState& link = links_[static_cast<std::size_t>(use.link)];
    if (!link.flows.empty()) touched_.push_back(link.flows.front());
  }
}

/// Flows and links that a change at `touched_` may reach, breadth first.
void Network::collect_component() {
  ++round_;
  component_flows_.clear();
  component_links_.clear();
  const auto reach = [this](int slot) {
    Flow& flow = flows_[static_cast<std::size_t>(slot)];
    if (!flow.active || flow.seen == round_) return;
    flow.seen = round_;
    component_flows_.push_back(slot);
  };
  for (const int slot : touched_) reach(slot);
  for (std::size_t i = 0; i < component_flows_.size(); ++i) {
    const Flow& flow = flows_[static_cast<std::size_t>(component_flows_[i])];
    for (const LinkUse& use : *flow.uses) {
      LinkState& link = links_[static_cast<std::size_t>(use.link)];
      if (link.seen == round_) continue;
      link.seen = round_;
      link.local = static_cast<int>(component_links_.size());
      component_links_.push_back(use.link);
      for (const int other : link.flows) reach(other);
    }
  }
}

void Network::build_problem() {
  problem_.clear();
  for (const int l : component_links_) {
    problem_.capacity.push_back(links_[static_cast<std::size_t>(l)].capacity);
  }
  for (const int slot : component_flows_) {
    const Flow& flow = flows_[static_cast<std::size_t>(slot)];
    for (const LinkUse& use : *flow.uses) {
      problem_.uses.push_back({links_[static_cast<std::size_t>(use.link)].local, use.weight});
    }
    problem_.flow_begin.push_back(static_cast<int>(problem_.uses.size()));
    problem_.bound.push_back(flow.bound);
  }
}

void Network::apply(core::Seconds now, const std::vector<double>& rates) {
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const int slot = component_flows_[i];
    Flow& flow = flows_[static_cast<std::size_t>(slot)];
    if (flow.rate == rates[i]) continue;
    flow.left = std::max(0.0, flow.left - flow.rate * (now - flow.since).value);
    flow.since = now;
    flow.rate = rates[i];
    ends_.set(slot, now.value + flow.left / flow.rate);
  }
}

void Network::check_capacities(const std::vector<double>& rates) {
  loads_.assign(problem_.capacity.size(), 0.0);
  for (std::size_t f = 0; f < rates.size(); ++f) {
    for (int u = problem_.flow_begin[f]; u < problem_.flow_begin[f + 1]; ++u) {
      const LinkUse& use = problem_.uses[static_cast<std::size_t>(u)];
      loads_[static_cast<std::size_t>(use.link)] += use.weight * rates[f];
    }
  }
  for (std::size_t l = 0; l < loads_.size(); ++l) {
    ORRERY_CHECK(loads_[l] <= problem_.capacity[l] * (1 + kRounding), "a link above its capacity");
  }
}

void Network::settle(core::Seconds now) {
  if (touched_.empty()) return;
  collect_component();
  touched_.clear();
  build_problem();
  const std::vector<double>& rates = solver_.solve(problem_);
  check_capacities(rates);
  apply(now, rates);
}

std::optional<core::Seconds> Network::next_end() const {
  if (ends_.empty()) return std::nullopt;
  return core::Seconds(ends_.least().key);
}

FlowId Network::end_next() {
  ORRERY_CHECK(!ends_.empty(), "no flow to end");
  const int slot = ends_.least().index;
  ends_.remove_least();
  Flow& flow = flows_[static_cast<std::size_t>(slot)];
  flow.active = false;
  flow.rate = 0;
  for (const LinkUse& use : *flow.uses) {
    LinkState& link = links_[static_cast<std::size_t>(use.link)];
    link.carried += use.weight * flow.amount;
    const auto at = std::find(link.flows.begin(), link.flows.end(), slot);
    *at = link.flows.back();
    link.flows.pop_back();
  }
  touch(flow);
  free_.push_back(slot);
  return FlowId(slot);
}

double Network::rate(FlowId id) const { return flows_[id.index()].rate; }

double Network::load(int link) const {
  double sum = 0;
  for (const int slot : links_[static_cast<std::size_t>(link)].flows) {
    const Flow& flow = flows_[static_cast<std::size_t>(slot)];
    const auto use = std::find_if(flow.uses->begin(), flow.uses->end(),
                                  [link](const LinkUse& u) { return u.link == link; });
    sum += use->weight * flow.rate;
  }
  return sum;
}

double Network::carried(int link) const { return links_[static_cast<std::size_t>(link)].carried; }

}  // namespace orrery::sim
