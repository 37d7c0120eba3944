#pragma once
// Flows on capacities: bytes on links, core-seconds on the cores of a node. Rates are max-min fair
// (sim/max_min.h) and change only where a flow starts or ends: the flows that share a link with it,
// those that share one with them, and so on.

#include <cstdint>
#include <optional>
#include <vector>

#include "core/ids.h"
#include "core/units.h"
#include "sim/indexed_heap.h"
#include "sim/max_min.h"

namespace orrery::sim {

/// Index of a flow in flight; given again to a later flow once it has ended.
using FlowId = core::Id<struct FlowTag>;

/// Use: start flows; settle() before time passes; take ended flows one by one.
class Network {
 public:
  explicit Network(std::vector<double> capacities);

  /// Starts a flow of `amount` > 0 whose rate x takes weight · x from each link of `uses` (each
  /// link once, kept by the caller until the flow ends), never faster than `bound`.
  FlowId start(core::Seconds now, const std::vector<LinkUse>& uses, double amount,
               std::optional<double> bound);

  /// Gives the flows affected since the last call their new rates.
  void settle(core::Seconds now);
  bool settled() const { return touched_.empty(); }

  /// When the next flow ends at the present rates. While not settled(), only an end at the present
  /// time is certain.
  std::optional<core::Seconds> next_end() const;
  /// Ends that flow.
  FlowId end_next();

  double rate(FlowId) const;
  /// Σ weight · rate over the link's flows.
  double load(int link) const;
  /// Σ weight · amount over the flows that have ended.
  double carried(int link) const;

 private:
  struct Flow {
    const std::vector<LinkUse>* uses = nullptr;
    double amount = 0;
    double left = 0;  // At `since`.
    double rate = 0;
    core::Seconds since;
    std::optional<double> bound;
    bool active = false;
    std::uint32_t seen = 0;  // Last settle() that reached it.
  };
  struct LinkState {
    double capacity = 0;
    double carried = 0;
    std::vector<int> flows;
    std::uint32_t seen = 0;
    int local = 0;  // Index in the problem of the settle() that reached it.
  };

  void touch(const Flow&);
  void collect_component();
  void build_problem();
  void apply(core::Seconds now, const std::vector<double>& rates);
  void check_capacities(const std::vector<double>& rates);

  std::vector<LinkState> links_;
  std::vector<Flow> flows_;
  std::vector<int> free_;
  std::vector<int> touched_;  // Flows started, or sharing a link with one that ended.
  IndexedHeap ends_;          // When each flow ends at its present rate.

  std::uint32_t round_ = 0;
  std::vector<int> component_flows_;
  std::vector<int> component_links_;
  MaxMinProblem problem_;
  MaxMinSolver solver_;
  std::vector<double> loads_;  // By link of the problem.
};

}  // namespace orrery::sim
