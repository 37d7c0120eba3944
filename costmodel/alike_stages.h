#pragma once
// Which chunks and which stages of a plan cost the same: they have as many layers, the same ends and
// the same kind of device. Most plans have three kinds at most, whatever their number of stages.

#include <cstddef>
#include <vector>

#include "core/plan.h"
#include "costmodel/lowered_stage.h"

namespace orrery::costmodel {

/// Chunks of a plan's layers that cost the same.
struct AlikeChunks {
  StagePlace ends;
  int layers = 0;
};

/// Stages of a plan that cost the same.
struct AlikeStages {
  StagePlace ends;
  std::vector<std::size_t> chunks;  ///< Their kinds, in model order.
  int layers = 0;                   ///< Of all chunks.
  int first = 0;                    ///< Of them in the pipeline.
};

struct StageKinds {
  std::vector<AlikeChunks> chunks;
  std::vector<std::size_t> kind_of_chunk;  ///< In model order.
  std::vector<AlikeStages> stages;
  std::vector<std::size_t> kind_of_stage;
};

/// @param devices  By stage, its kind of device.
StageKinds stage_kinds(const core::DensePlan&, const std::vector<int>& devices);

/// Position of the entry that `same` says is alike, added where there is none.
template <class Kind, class Same, class Make>
std::size_t kind_index(std::vector<Kind>& kinds, Same same, Make make) {
  std::size_t index = 0;
  while (index < kinds.size() && !same(kinds[index])) ++index;
  if (index == kinds.size()) kinds.push_back(make());
  return index;
}

}  // namespace orrery::costmodel
