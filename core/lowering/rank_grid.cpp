#include "core/lowering/rank_grid.h"

#include <algorithm>

#include "core/error.h"

namespace orrery::core {
namespace {

int degree_of(const DensePlan& plan, Axis axis) {
  switch (axis) {
    case Axis::Tensor:
      return plan.tensor;
    case Axis::Context:
      return plan.context;
    case Axis::Sharding:
      return plan.sharding;
    case Axis::Expert:
      return plan.expert;
    case Axis::Pipeline:
      return plan.pipeline;
    case Axis::Data:
      return plan.data;
  }
  return 1;
}

}  // namespace

RankGrid::RankGrid(const DensePlan& plan) {
  for (const Axis axis : plan.axis_order) {
    const int degree = degree_of(plan, axis);
    places_[static_cast<std::size_t>(axis)] = {degree, ranks_};
    ranks_ *= degree;
  }
  ORRERY_CHECK(ranks_ == plan.devices(), "axis_order misses an axis of degree above 1");
}

int RankGrid::degree(Axis axis) const { return place(axis).degree; }

int RankGrid::stride(Axis axis) const { return place(axis).stride; }

int RankGrid::coordinate(Rank rank, Axis axis) const {
  return rank.value / place(axis).stride % place(axis).degree;
}

Rank RankGrid::moved(Rank rank, Axis axis, int coordinate_there) const {
  return Rank(rank.value + (coordinate_there - coordinate(rank, axis)) * stride(axis));
}

std::vector<Rank> RankGrid::group(Rank rank, const std::vector<Axis>& axes) const {
  std::vector<Rank> members = {rank};
  for (const Axis axis : axes) {
    std::vector<Rank> wider;
    for (const Rank member : members) {
      for (int c = 0; c < degree(axis); ++c) wider.push_back(moved(member, axis, c));
    }
    members = std::move(wider);
  }
  std::sort(members.begin(), members.end());
  return members;
}

int RankGrid::data_way(Rank rank) const {
  const int outer =
      coordinate(rank, Axis::Data) * degree(Axis::Sharding) + coordinate(rank, Axis::Sharding);
  return outer * degree(Axis::Expert) + coordinate(rank, Axis::Expert);
}

std::vector<DenseGroup> dense_groups(const DensePlan& plan, bool experts) {
  std::vector<DenseGroup> all = {
      {GroupKind::Tensor, {Axis::Tensor}},
      {GroupKind::Context, {Axis::Context}},
      {GroupKind::Expert, {Axis::Expert}},
      {GroupKind::Sharding, {Axis::Sharding}},
      // Ranks that share a sequence hold the same parameters too.
      {GroupKind::Data, {Axis::Context, Axis::Data}},
      {GroupKind::ExpertSharding, {Axis::Sharding}},
      {GroupKind::ExpertData, {Axis::Context, Axis::Data}},
      {GroupKind::Model, {Axis::Tensor, Axis::Pipeline, Axis::Sharding, Axis::Expert}},
      {GroupKind::World,
       {Axis::Tensor, Axis::Context, Axis::Pipeline, Axis::Sharding, Axis::Expert, Axis::Data}}};
  std::vector<DenseGroup> groups;
  for (DenseGroup& group : all) {
    // Tensor ranks hold different experts too.
    if (group.kind == GroupKind::Expert && plan.expert_tensor < plan.tensor) {
      group.axes.push_back(Axis::Tensor);
    }
    // What is no expert's is the same along the expert axis, or divided over it.
    const GroupKind shared = plan.sharding_stage > 0 ? GroupKind::Sharding : GroupKind::Data;
    if (group.kind == shared) group.axes.push_back(Axis::Expert);
    const bool of_experts = group.kind == GroupKind::Expert ||
                            group.kind == GroupKind::ExpertSharding ||
                            group.kind == GroupKind::ExpertData;
    if (of_experts && !experts) continue;
    int size = 1;
    for (const Axis axis : group.axes) size *= degree_of(plan, axis);
    if (size > 1) groups.push_back(group);
  }
  return groups;
}

}  // namespace orrery::core
