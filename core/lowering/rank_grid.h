#pragma once
// Which rank stands where: the axes of a dense plan laid over ranks 0 .. devices−1, innermost
// first.

#include <array>
#include <cstddef>
#include <vector>

#include "core/ids.h"
#include "core/plan.h"
#include "core/program.h"

namespace orrery::core {

class RankGrid {
 public:
  explicit RankGrid(const DensePlan&);

  int ranks() const { return ranks_; }
  int degree(Axis) const;
  int stride(Axis) const;  ///< Ranks from one coordinate to the next.
  int coordinate(Rank, Axis) const;

  /// Ranks that differ from `rank` only along `axes`, in rank order; `rank` is one of them.
  std::vector<Rank> group(Rank rank, const std::vector<Axis>& axes) const;
  /// The rank like `rank` but at `coordinate` along `axis`.
  Rank moved(Rank rank, Axis axis, int coordinate) const;
  /// 0 .. DensePlan::data_ways() − 1: selects the samples of a rank.
  int data_way(Rank) const;

 private:
  struct AxisPlace {
    int degree = 1;  ///< 1 where the plan does not name the axis.
    int stride = 1;
  };
  const AxisPlace& place(Axis axis) const { return places_[static_cast<std::size_t>(axis)]; }

  std::array<AxisPlace, 6> places_;  ///< By Axis.
  int ranks_ = 1;
};

/// A kind of group that a plan's ranks form: those that differ only along `axes`.
struct DenseGroup {
  GroupKind kind;
  std::vector<Axis> axes;
};

/// The groups of a dense plan in the order of its roles' slots. Groups of one rank have none, and
/// that of tied embeddings, which no axes span, is not here.
/// @param experts  The model has any.
std::vector<DenseGroup> dense_groups(const DensePlan&, bool experts);

}  // namespace orrery::core
