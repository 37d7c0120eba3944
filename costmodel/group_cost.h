#pragma once
// What the groups of a dense plan cost to communicate in: where their members are, found once per
// shape of group.

#include <array>
#include <compare>
#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "core/cluster.h"
#include "core/lowering/rank_grid.h"
#include "core/plan.h"
#include "costmodel/collective_cost.h"

namespace orrery::costmodel {

/// A group of ranks, as its collectives cost.
struct GroupCost {
  GroupPlacement alone, shared;
  auto operator<=>(const GroupCost&) const = default;
};

/// Time of a collective whose method is chosen as if the group were alone, while every device of
/// its nodes communicates in sibling groups.
core::Seconds collective_time(core::CollectiveKind, core::Bytes, const GroupCost&,
                              const FabricCost&);

/// The groups of one rank of a plan, by kind. Kinds of groups that have one member are left out.
class PlanGroups {
 public:
  void add(core::GroupKind kind, GroupCost cost) { costs_[static_cast<std::size_t>(kind)] = cost; }
  /// @pre the kind is there: the program communicates in no group of one rank.
  const GroupCost& of(core::GroupKind) const;
  auto operator<=>(const PlanGroups&) const = default;

 private:
  static constexpr auto kKinds = static_cast<std::size_t>(core::GroupKind::Servers) + 1;
  std::array<std::optional<GroupCost>, kKinds> costs_;
};

/// Safe to use from several threads.
class GroupCosts {
 public:
  explicit GroupCosts(const core::Cluster& cluster) : cluster_(cluster) {}

  /// The groups of rank 0, that of tied embeddings (the first and the last stage) among them.
  /// @param experts  The model has any.
  PlanGroups of(const core::DensePlan&, bool experts = false) const;
  /// Those of `groups` that lie within a stage.
  PlanGroups within_stage(const core::DensePlan&,
                          const std::vector<core::DenseGroup>& groups) const;

 private:
  GroupCost cost(const core::RankGrid&, const std::vector<core::Axis>& axes) const;
  GroupCost cost(const std::vector<core::Rank>& members) const;

  const core::Cluster& cluster_;
  mutable std::mutex mutex_;
  /// By the (stride, degree) of each axis.
  mutable std::map<std::vector<std::pair<int, int>>, GroupCost> known_;
};

/// Whether members of such a group are ranks of several stages.
bool crosses_stages(core::GroupKind);

}  // namespace orrery::costmodel
