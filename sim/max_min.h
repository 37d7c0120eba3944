#pragma once
// Max-min fair sharing of links by flows.
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
// O(E log L) for E usages of L links.
// Source: Bertsekas, Gallager, Data Networks, 2nd ed. 1992, section 6.5.2.

#include <optional>
#include <utility>
#include <vector>

namespace orrery::sim {

/// w_lf of one link.
struct LinkUse {
  int link = 0;
  double weight = 1.0;
};

/// Flows as rows of `uses`: flow f has uses[flow_begin[f] .. flow_begin[f+1]), each link once.
struct MaxMinProblem {
  std::vector<double> capacity;  ///< By link.
  std::vector<int> flow_begin = {0};
  std::vector<LinkUse> uses;
  std::vector<std::optional<double>> bound;  ///< By flow.

  int flows() const { return static_cast<int>(bound.size()); }
  void clear();
  int add_link(double link_capacity);
  int add_flow(const std::vector<LinkUse>& flow_uses, std::optional<double> flow_bound);
};

/// Keeps its working memory between calls.
class MaxMinSolver {
 public:
  /// Rates by flow, valid until the next call. Each flow has a use or a bound.
  const std::vector<double>& solve(const MaxMinProblem&);

 private:
  struct Sharer {
    int flow;
    double weight;
  };
  void prepare(const MaxMinProblem&);
  void fix(const MaxMinProblem&, int flow, double rate);
  std::optional<std::pair<double, int>> next_full_link();
  double exact_level(int link) const;

  std::vector<double> rates_;
  std::vector<char> fixed_;
  std::vector<int> sharers_begin_;
  std::vector<Sharer> sharers_;  // By link, as a transposed copy of `uses`.
  std::vector<double> left_;     // Capacity that no stopped flow takes.
  std::vector<double> moving_weight_;
  std::vector<int> moving_;
  std::vector<std::pair<double, int>> heap_;    // (level when pushed, link), least on top.
  std::vector<std::pair<double, int>> bounds_;  // (bound, flow), ascending.
};

}  // namespace orrery::sim
