#include "costmodel/group_cost.h"

#include <algorithm>
#include <set>

#include "core/error.h"

namespace orrery::costmodel {

using core::Axis;
using core::GroupKind;
using core::Rank;

core::Seconds collective_time(core::CollectiveKind kind, core::Bytes bytes, const GroupCost& group,
                              const FabricCost& fabric) {
  const auto method = choose_method(kind, bytes, group.alone, fabric);
  return collective_time(method, kind, bytes, group.shared, fabric);
}

bool crosses_stages(GroupKind kind) {
  switch (kind) {
    case GroupKind::Model:
    case GroupKind::World:
    case GroupKind::TiedEmbedding:
      return true;
    case GroupKind::Tensor:
    case GroupKind::Context:
    case GroupKind::Expert:
    case GroupKind::ExpertData:
    case GroupKind::ExpertSharding:
    case GroupKind::Data:
    case GroupKind::Sharding:
    case GroupKind::Servers:
      return false;
  }
  core::check_failed("GroupKind", "unknown kind", __FILE__, __LINE__);
}

const GroupCost& PlanGroups::of(GroupKind kind) const {
  const std::optional<GroupCost>& cost = costs_[static_cast<std::size_t>(kind)];
  ORRERY_CHECK(cost.has_value(), "a collective in a group that the plan has not");
  return *cost;
}

GroupCost GroupCosts::cost(const std::vector<Rank>& members) const {
  const auto placed = [&](Company company) {
    if (const auto where = placement_of(members, cluster_, company)) return *where;
    // Unequal numbers on its nodes: taken as equal, rounded up.
    std::set<int> nodes;
    for (const Rank rank : members) nodes.insert(cluster_.node_of(rank.value));
    GroupPlacement where;
    where.nodes = static_cast<int>(nodes.size());
    where.members_per_node = (static_cast<int>(members.size()) + where.nodes - 1) / where.nodes;
    where.users_per_card = where.users_per_node = where.members_per_node;
    return where;
  };
  return {placed(Company::Alone), placed(Company::WholeNodes)};
}

GroupCost GroupCosts::cost(const core::RankGrid& grid, const std::vector<Axis>& axes) const {
  std::vector<std::pair<int, int>> shape;
  for (const Axis axis : axes) {
    if (grid.degree(axis) == 1) continue;
    shape.emplace_back(grid.moved(Rank(0), axis, 1).value, grid.degree(axis));
  }
  std::sort(shape.begin(), shape.end());
  // Axes that lie directly around one another are as one.
  std::vector<std::pair<int, int>> merged;
  for (const auto& [stride, degree] : shape) {
    if (!merged.empty() && merged.back().first * merged.back().second == stride) {
      merged.back().second *= degree;
    } else {
      merged.emplace_back(stride, degree);
    }
  }
  const std::lock_guard lock(mutex_);
  const auto known = known_.find(merged);
  if (known != known_.end()) return known->second;
  return known_.try_emplace(std::move(merged), cost(grid.group(Rank(0), axes))).first->second;
}

PlanGroups GroupCosts::within_stage(const core::DensePlan& plan,
                                    const std::vector<core::DenseGroup>& groups) const {
  const core::RankGrid grid(plan);
  PlanGroups costs;
  for (const core::DenseGroup& group : groups) {
    if (!crosses_stages(group.kind)) costs.add(group.kind, cost(grid, group.axes));
  }
  return costs;
}

PlanGroups GroupCosts::of(const core::DensePlan& plan, bool experts) const {
  const core::RankGrid grid(plan);
  PlanGroups groups;
  for (const core::DenseGroup& group : core::dense_groups(plan, experts)) {
    groups.add(group.kind, cost(grid, group.axes));
  }
  if (plan.pipeline > 1) {
    const Rank end = grid.moved(Rank(0), Axis::Pipeline, plan.pipeline - 1);
    groups.add(GroupKind::TiedEmbedding, cost({Rank(0), end}));
  }
  return groups;
}

}  // namespace orrery::costmodel
