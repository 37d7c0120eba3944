#include "sim/link_gains.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "sim/fold_choice.h"
#include "sim/interpreter.h"

namespace orrery::sim {
namespace {

using core::Link;
using core::LinkKind;

/// Links that are alike, both directions together.
struct LinkClass {
  std::vector<core::LinkId> links;
  core::Seconds full;  ///< Of one direction.
};

/// The way back: what leads from where a link leads to.
Link reversed(Link link) {
  constexpr std::array<std::pair<LinkKind, LinkKind>, 6> kPairs = {
      std::pair(LinkKind::PortOut, LinkKind::PortIn),
      std::pair(LinkKind::SharedUp, LinkKind::SharedDown),
      std::pair(LinkKind::CardOut, LinkKind::CardIn),
      std::pair(LinkKind::LeafUp, LinkKind::LeafDown),
      std::pair(LinkKind::RailUp, LinkKind::RailDown),
      std::pair(LinkKind::PodUp, LinkKind::PodDown)};
  if (link.kind == LinkKind::Wire) {
    std::swap(link.place, link.to);
    return link;
  }
  for (const auto& [there, back] : kPairs) {
    if (link.kind == there) {
      link.kind = back;
      return link;
    }
    if (link.kind == back) link.kind = there;
  }
  return link;
}

/// Numbers of sets of links: those that stand for each other, and those of the way back.
class Sets {
 public:
  Sets(const Fold& fold, const std::vector<Link>& links) : leader_(links.size()) {
    const auto key = [](const Link& l) { return std::tuple(l.kind, l.place, l.index, l.to); };
    std::map<std::tuple<LinkKind, int, int, int>, std::size_t> number;
    for (std::size_t l = 0; l < links.size(); ++l) {
      leader_[l] = l;
      number.emplace(key(links[l]), l);
    }
    for (std::size_t l = 0; l < links.size(); ++l) {
      if (fold.symmetry) join(l, fold.symmetry->link_class[l]);
      const auto back = number.find(key(reversed(links[l])));
      if (back != number.end()) join(l, back->second);
    }
  }

  /// The least of a link's set.
  std::size_t of(std::size_t link) {
    while (leader_[link] != link) link = leader_[link] = leader_[leader_[link]];
    return link;
  }

 private:
  void join(std::size_t a, std::size_t b) {
    a = of(a);
    b = of(b);
    leader_[std::max(a, b)] = std::min(a, b);
  }

  std::vector<std::size_t> leader_;
};

std::vector<LinkClass> link_classes(const Fold& fold, const Network& network,
                                    const std::vector<Link>& links) {
  std::vector<LinkClass> classes(links.size());
  Sets sets(fold, links);
  for (std::size_t l = 0; l < links.size(); ++l) {
    LinkClass& own = classes[sets.of(l)];
    own.links.emplace_back(l);
    own.full = std::max(own.full, network.full(static_cast<int>(l)));
  }
  std::erase_if(classes, [](const LinkClass& one) { return one.links.empty(); });
  std::stable_sort(classes.begin(), classes.end(),
                   [](const LinkClass& a, const LinkClass& b) { return a.full > b.full; });
  return classes;
}

std::string kind_text(LinkKind kind) {
  switch (kind) {
    case LinkKind::PortOut:
    case LinkKind::PortIn:
      return "all ports of devices";
    case LinkKind::SharedUp:
    case LinkKind::SharedDown:
      return "all that devices of a node share";
    case LinkKind::CardOut:
    case LinkKind::CardIn:
      return "all cards";
    case LinkKind::LeafUp:
    case LinkKind::LeafDown:
    case LinkKind::RailUp:
    case LinkKind::RailDown:
      return "all that leads up from leaves";
    case LinkKind::PodUp:
    case LinkKind::PodDown:
      return "all that leads up from pods";
    case LinkKind::Wire:
      return "all links between switches";
  }
  ORRERY_CHECK(false, "unknown kind of link");
}

// Savings below this share of the step are roundings.
constexpr double kNothing = 1e-9;

/// Simulates steps with some links twice as fast.
class Trials {
 public:
  Trials(const core::Program& program, const core::Durations& durations,
         const core::Cluster& cluster, const SimulateOptions& options)
      : program_(program), durations_(durations), cluster_(cluster), options_(options) {}

  core::Seconds step_with(std::span<const LinkClass> faster) const {
    SimulateOptions options = options_;
    for (const LinkClass& one : faster) {
      for (const core::LinkId link : one.links) {
        options.perturbations.slow_links.push_back({link, 2.0, {}});
      }
    }
    return simulate_step(program_, durations_, cluster_, options);
  }

 private:
  const core::Program& program_;
  const core::Durations& durations_;
  const core::Cluster& cluster_;
  const SimulateOptions& options_;
};

/// A set of classes, and what it saves.
struct Candidate {
  core::Seconds saves;
  std::span<const LinkClass> classes;
};

LinkGain gain_of(std::string name, bool whole_kind, const Candidate& set) {
  LinkGain gain{std::move(name), whole_kind, 0, core::Seconds(0), set.saves};
  for (const LinkClass& one : set.classes) {
    gain.links += static_cast<int>(one.links.size());
    gain.full = std::max(gain.full, one.full);
  }
  return gain;
}

}  // namespace

std::vector<LinkGain> link_gains(const core::Program& program, const core::Durations& durations,
                                 const core::Cluster& cluster, SimulateOptions options, int most) {
  options.folded = options.exact_links = true;
  options.memory_counters = false;
  options.progress = nullptr;
  const Networks networks(cluster, options.perturbations, options.steps);
  const Fold fold = fold_for(program, cluster, networks, options);
  Interpreter interpreter(program, durations, cluster, networks, fold, options, nullptr);
  interpreter.run();
  const core::Seconds step = interpreter.steps().back().end - interpreter.steps().back().start;
  const core::Topology& topology = networks.healthy();
  std::vector<LinkClass> classes = link_classes(fold, interpreter.network(), topology.links());
  const auto kind = [&](const LinkClass& one) {
    return kind_text(topology.link(one.links.front()).kind);
  };
  std::stable_sort(classes.begin(), classes.end(),
                   [&](const LinkClass& a, const LinkClass& b) { return kind(a) < kind(b); });
  const Trials trials(program, durations, cluster, options);
  const auto less = [](const auto& a, const auto& b) { return a.saves > b.saves; };
  std::vector<LinkGain> gains;
  std::vector<Candidate> open;
  // Explores those of a set's classes that stop flows: they come first.
  const auto look_at = [&](std::span<const LinkClass> set) {
    const Candidate candidate{step - trials.step_with(set), set};
    const auto idle = std::find_if(set.begin(), set.end(),
                                   [](const LinkClass& one) { return one.full.value <= 0; });
    const auto busy = set.first(static_cast<std::size_t>(idle - set.begin()));
    if (busy.empty() || candidate.saves <= step * kNothing) return candidate;
    const core::Seconds saves =
        busy.size() == set.size() ? candidate.saves : step - trials.step_with(busy);
    if (saves > step * kNothing) open.push_back({saves, busy});
    return candidate;
  };
  for (std::size_t first = 0; first < classes.size();) {
    std::size_t end = first;
    while (end < classes.size() && kind(classes[end]) == kind(classes[first])) ++end;
    const auto set = std::span<const LinkClass>(classes).subspan(first, end - first);
    if (set.front().full.value > 0) {
      gains.push_back(gain_of(kind(classes[first]), true, look_at(set)));
    }
    first = end;
  }
  std::stable_sort(gains.begin(), gains.end(), less);
  const auto kinds = static_cast<std::ptrdiff_t>(gains.size());
  while (!open.empty() && most > 0) {
    const auto best = std::min_element(open.begin(), open.end(), less);
    const Candidate set = *best;
    open.erase(best);
    if (set.classes.size() == 1) {
      gains.push_back(gain_of(topology.name(set.classes.front().links.front()), false, set));
      --most;
      continue;
    }
    const std::size_t half = set.classes.size() / 2;
    look_at(set.classes.first(half));
    look_at(set.classes.subspan(half));
  }
  std::stable_sort(gains.begin() + kinds, gains.end(), less);
  return gains;
}

}  // namespace orrery::sim
