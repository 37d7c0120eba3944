#pragma once
// What the communication instructions of a program put on the links of a cluster.
//
// A phase of a collective (core/network/collective_algorithm.h) is one flow whose parts move in
// proportion: its rate x is that of its busiest link, and a link that carries b bytes while the
// busiest carries B takes b/B · x. So a phase with nothing beside it lasts latency +
// max_links(bytes / β), exactly the closed form, and on a shared link it counts as one flow. What members add up of it takes its time
// before the flow starts: nothing else sees the order.
//
// When one rank stands for others (sim/fold.h), its flow also carries what their flows put on the same
// links at the same time (the sibling groups of a collective, the other senders of a stage): a link
// then takes (own + siblings' bytes)/B · x. Of all links only those that tell the time are kept:
// the busiest one, and those of the simulated ranks themselves. Where siblings are placed
// differently (some within a node, some across), the slowest of them stands for all.
//
// With a symmetry (sim/symmetry.h) a communication stands for those of its class, and a link for its
// class: on such a link a flow takes what all of the class put there, and no other links are used.

#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "core/network/collective_algorithm.h"
#include "core/network/topology.h"
#include "core/program.h"
#include "sim/fold.h"
#include "sim/max_min.h"

namespace orrery::sim {

/// A phase per byte of the instruction: the busiest link carries `amount` times its bytes, and sums
/// take `sums` seconds for each.
struct PhaseShape {
  core::Seconds latency;
  double amount = 0;
  std::vector<LinkUse> uses;
  double sums = 0;
};

/// Phases one after another, each of `bytes`.
struct Part {
  const std::vector<PhaseShape>* phases = nullptr;
  core::Bytes bytes;
};

/// The parts of one communication, one after another (a pull: keys there, rows back).
using Communication = std::vector<Part>;

/// One byte from a rank to another; on the wires of a cube mesh it is more.
core::CollectivePhase message_phase(core::Rank from, core::Rank to, const core::Topology&);

/// Remembers the shape of each communication it has been asked for.
class Communications {
 public:
  /// @param healthy  The network as the library that chooses algorithms knows it, and whose links
  ///                 have the capacities that uses refer to.
  /// @param actual   The same, or with links that are slow or have failed.
  Communications(const core::Program&, const core::Topology& healthy, const core::Topology& actual,
                 const Fold&, std::optional<core::CollectiveAlgorithm> preferred = std::nullopt);

  /// By the preferred algorithm where it supports the collective, else by the method that
  /// core/network/collective_choice.h names.
  Communication collective(core::GroupId, core::CollectiveKind, core::Bytes);
  /// `peer` is the slot of `from` that names `to`.
  Communication message(core::Rank from, core::Rank to, core::PeerSlot peer, core::Bytes);
  /// One worker and one server, with the keys that they exchange.
  Communication pull(core::Rank worker, core::Rank server, double keys, int width);
  Communication push(core::Rank worker, core::Rank server, double keys, int width);

 private:
  struct Choice {
    std::vector<PhaseShape> phases;
    // Uncontended time of the group alone: latency + bytes · per_byte.
    core::Seconds latency;
    double per_byte = 0;
  };
  /// What all of these groups have in common.
  core::GroupShape shape_of(const std::vector<core::GroupId>& alike) const;
  core::MethodList methods(core::GroupId, core::CollectiveKind, core::Bytes);
  const Choice& choice(core::GroupId, core::CollectiveKind, core::CollectiveMethod);
  Choice make_choice(core::GroupId, core::CollectiveKind, core::CollectiveMethod) const;
  Choice own_choice(const std::vector<core::CollectivePhase>&) const;
  Choice shared_choice(const std::vector<core::GroupId>& alike, core::GroupId,
                       const std::vector<std::vector<core::CollectivePhase>>& parts) const;
  Choice quotient_choice(const std::vector<core::GroupId>& alike, core::GroupId,
                         const std::vector<std::vector<core::CollectivePhase>>& parts) const;
  std::vector<core::GroupId> siblings(core::GroupId) const;
  std::vector<core::GroupId> groups_like(core::GroupId) const;
  const std::vector<PhaseShape>& route(core::Rank from, core::Rank to);
  std::vector<PhaseShape> shared_message(core::Rank from, core::PeerSlot) const;
  std::vector<PhaseShape> quotient_message(core::Rank from, core::PeerSlot) const;
  LinkUse use_of(const core::LinkLoad&, double amount) const;
  const std::vector<core::Rank>& ranks_like(core::Rank) const;
  PhaseShape own_shape(const core::CollectivePhase& own) const;
  PhaseShape shared_shape(const core::CollectivePhase& own, const core::CollectivePhase& all,
                          const std::vector<core::Rank>& seen_by) const;
  PhaseShape quotient_shape(const core::CollectivePhase& own, const core::CollectivePhase& all,
                            bool alone) const;

  const core::Program& program_;
  const core::Topology& healthy_;
  const core::Topology& topology_;
  std::optional<Symmetry> symmetry_;
  bool folded_ = false;
  std::vector<std::vector<core::Rank>>
      alike_;                          ///< Where folded: ranks that one stands for, with it.
  std::vector<std::size_t> stand_in_;  ///< By rank, into alike_.
  std::vector<bool> simulated_;        ///< By rank.
  std::optional<core::CollectiveAlgorithm> preferred_;
  std::map<core::GroupId, core::GroupShape> shapes_;
  std::map<std::tuple<core::GroupId, core::CollectiveKind, core::CollectiveMethod>, Choice>
      collectives_;
  std::map<std::tuple<core::Rank, core::Rank>, std::vector<PhaseShape>> routes_;
  std::map<std::tuple<core::Rank, core::PeerSlot>, std::vector<PhaseShape>> messages_;
};

}  // namespace orrery::sim
