#pragma once
// Max-min fair sharing of links by flows that come and go.
//
// Given capacities C_l > 0, usages w_lf > 0 (what one unit of flow f's rate takes from link l) and
// bounds b_f, the rates x_f ≥ 0 are the only ones with
//   (1)  Σ_f w_lf · x_f ≤ C_l                                     for every link l,
//   (2)  x_f ≤ b_f                                                for every bounded flow f,
//   (3)  each flow f has x_f = b_f, or a bottleneck: a link l of its own where (1) is an equality
//   and
//        x_f ≥ x_g for every flow g on l.
// So no rate can grow without lowering one that is no larger.
//
// Progressive filling finds them: all rates rise together; when a link is full, its flows stop
// there, when a flow reaches its bound, it stops alone; the others go on. A link's level,
//   s_l = (C_l − Σ_stopped w·x) / Σ_moving w,
// only rises while others stop, so a heap with stale (too low) entries finds the next full link:
// O(E log L) for E usages of L links. All flows that a link stops have one rate, its level.
// Source: Bertsekas, Gallager, Data Networks, 2nd ed. 1992, section 6.5.2.
//
// A change reaches only the flows that share a link with it, those that share one with them, and so
// on; and of these only such as are at least as fast as the flow that came or went, since until all
// rates have risen to its own nothing differs. The others keep their rates.

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "sim/link_islands.h"

namespace orrery::sim {

/// w_lf of one link.
struct LinkUse {
  int link = 0;
  double weight = 1.0;
};

class FairShares {
 public:
  explicit FairShares(const std::vector<double>& capacities);

  /// Adds flow `flow`, a small number that no flow has now. It has a use or a bound.
  /// @param uses  Each link once; kept by the caller until the flow is removed.
  void add(int flow, const std::vector<LinkUse>& uses, std::optional<double> bound);
  void remove(int flow);
  /// Whether nothing has changed since the last solve().
  bool settled() const { return touched_.empty() && loose_.empty(); }

  /// Shares anew what the changes since the last call reach.
  void solve();

  /// The last solve() reached these links.
  const std::vector<int>& links() const { return component_; }
  /// Flows that are stopped by something else since the last solve(), new ones among them.
  const std::vector<int>& moved() const { return moved_; }
  /// Of the last solve(), which has seen the flow.
  double rate(int flow) const { return briefs_[static_cast<std::size_t>(flow)].rate; }
  /// The link that stops a flow; empty where its bound does.
  std::optional<int> bottleneck(int flow) const;
  /// The rate of the flows that a link stops.
  double level(int link) const { return level_[static_cast<std::size_t>(link)]; }

  struct Sharer {
    int flow = 0;
    double weight = 0;
  };
  const std::vector<Sharer>& flows_on(int link) const {
    return links_[static_cast<std::size_t>(link)].sharers;
  }

 private:
  struct Link {
    double capacity = 0;
    double weight = 0;  // Of all sharers.
    std::vector<Sharer> sharers;
    int unlike_one = 0;  // Sharers whose weight is not 1.
    int bounded = 0;     // Sharers that have a bound.
  };
  /// A link while it fills: what no stopped flow takes, and the flows that still rise.
  struct Filling {
    double left = 0;
    double moving_weight = 0;
    int moving = 0;
  };
  /// The links of a flow that has one or two, each with weight 1: small, for filling meets flows in no
  /// order.
  struct Few {
    int first = kMany;
    int second = kNone;
    static constexpr int kNone = -1;
    static constexpr int kMany = -2;  // In place of the first: see uses().
  };
  /// What filling asks of every flow that it meets.
  struct Brief {
    double rate = kUnknown;     // Of the last solve().
    std::uint32_t stopped = 0;  // The round in which it stopped.
    int stop = kNew;            // Its bottleneck, or one of the two below.
  };
  static constexpr double kUnknown = std::numeric_limits<double>::infinity();
  static constexpr int kNew = -1;
  static constexpr int kBound = -2;
  static constexpr double kEmpty =
      std::numeric_limits<double>::infinity();  // A link that is not full.

  Link& link(int l) { return links_[static_cast<std::size_t>(l)]; }
  Filling& filling(int l) { return filling_[static_cast<std::size_t>(l)]; }
  const std::vector<LinkUse>& uses(int f) const { return *uses_[static_cast<std::size_t>(f)]; }
  Brief& brief(int f) { return briefs_[static_cast<std::size_t>(f)]; }
  bool moves(int f) const { return briefs_[static_cast<std::size_t>(f)].stopped != round_; }

  void touch(int link, double rate);
  void look_anew(int island);
  void collect_component();
  void begin_filling();
  bool fills_at_once() const;
  void fill_up(int link, double level);
  void fill();
  void stop(int flow, double rate, int at);
  void take_off(int link, double weight, double rate);
  std::optional<std::pair<double, int>> next_full_link();
  double exact_level(int link) const;
  void check_capacities() const;

  std::vector<Link> links_;
  std::vector<double> level_;     // By link.
  std::vector<Filling> filling_;  // By link.
  LinkIslands islands_;
  std::vector<std::uint32_t> island_seen_;  // By name.
  std::vector<Few> few_;                    // By flow, as are the next three.
  std::vector<const std::vector<LinkUse>*> uses_;
  std::vector<Brief> briefs_;                 // By flow.
  std::vector<std::optional<double>> bound_;  // By flow.
  std::vector<int> touched_;                  // Links whose flows have changed.
  double floor_ = kEmpty;                     // Slower flows keep their rates.
  std::vector<int> loose_;                    // New flows without links.
  std::uint32_t round_ = 0;
  std::vector<int> component_;
  std::vector<int> moved_;
  std::vector<std::pair<double, int>> heap_;    // (level when pushed, link), least on top.
  std::vector<std::pair<double, int>> bounds_;  // (bound, flow), ascending.
};

}  // namespace orrery::sim
