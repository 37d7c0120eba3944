#pragma once
// Flows on capacities: bytes on links, core-seconds on the cores of a node. Rates are max-min fair
// (sim/max_min.h) and change only where a flow starts or ends.
//
// Flows that one link stops have one rate, so they end in the order of what was left of them when they
// joined: each link keeps what a flow that it has stopped all along would have been served, and a flow
// ends when that has grown by what was left of it. A change of rates then costs a link no more than
// an addition, however many flows it stops.

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
  explicit Network(const std::vector<double>& capacities);

  /// Starts a flow of `amount` > 0 (infinite for one that never ends) whose rate x takes weight · x from each link of `uses` (each
  /// link once, kept by the caller until the flow ends), never faster than `bound`.
  FlowId start(const std::vector<LinkUse>& uses, double amount, std::optional<double> bound);

  /// Gives the flows affected since the last call their new rates.
  void settle(core::Seconds now);
  bool settled() const { return shares_.settled(); }

  /// When the next flow ends at the present rates; absent where none ever does. While not settled(), only an end at the present
  /// time is certain.
  std::optional<core::Seconds> next_end() const;
  /// Ends that flow.
  FlowId end_next();

  double rate(FlowId flow) const { return shares_.rate(flow.value); }
  /// Σ weight · rate over the link's flows.
  double load(int link) const;
  /// Σ weight · amount over the flows that have ended.
  double carried(int link) const { return carried_[static_cast<std::size_t>(link)]; }
  /// How long the link has stopped some flow: how long a faster one would have helped.
  core::Seconds full(int link) const { return stopped_[static_cast<std::size_t>(link)].full; }

 private:
  struct Flow {
    const std::vector<LinkUse>* uses = nullptr;
    double amount = 0;
    std::optional<int> stopped_by;  // A link.
    std::uint64_t joined = 0;       // Names its Place there; stale places have an older one.
    double ends_at = 0;             // What the link will have served.
    // Of a flow that its bound stops, or that has no rate yet.
    double left = 0;
    double rate = 0;
    core::Seconds since = {};
  };
  struct Place {
    double ends_at = 0;
    int flow = 0;
    std::uint64_t joined = 0;
  };
  /// The flows that a link stops.
  struct Stopped {
    double rate = 0;
    double served = 0;  // At `since`.
    core::Seconds since;
    int flows = 0;
    core::Seconds full;         // How long there were any.
    std::vector<Place> places;  // Heap, the first to end on top.
  };

  static bool later(const Place& a, const Place& b);
  Stopped& stopped(int link) { return stopped_[static_cast<std::size_t>(link)]; }
  Flow& flow(int f) { return flows_[static_cast<std::size_t>(f)]; }
  /// In ends_.
  int key_alone(int f) const { return static_cast<int>(stopped_.size()) + f; }

  void advance(Stopped&, core::Seconds now);
  double leave(int flow, core::Seconds now);
  void join(int flow, double left, core::Seconds now);
  void drop_stale(Stopped&);
  void set_end(int link);
  int take_first(int link, core::Seconds end);

  FairShares shares_;
  std::vector<Stopped> stopped_;  // By link.
  std::vector<double> carried_;
  std::vector<Flow> flows_;
  std::vector<int> free_;
  std::uint64_t joins_ = 0;
  IndexedHeap ends_;  // Links by when the first of their flows ends, then flows of their own.
};

}  // namespace orrery::sim
