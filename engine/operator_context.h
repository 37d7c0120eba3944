#pragma once
// What an instruction may use besides its own fields: its operands and the rank it runs on.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/job.h"
#include "engine/data_sources.h"
#include "engine/rank_program.h"
#include "engine/workspace.h"

namespace orrery::engine {

/// A view with its address: `count` elements from element `first` of a buffer instance.
struct Operand {
  std::byte* data = nullptr;  ///< Of the view's first element.
  std::int64_t first = 0;
  std::int64_t count = 0;
  int element_bytes = 4;

  float* floats() const { return reinterpret_cast<float*>(data); }
  std::int32_t* ints() const { return reinterpret_cast<std::int32_t*>(data); }
};

struct OperatorContext {
  const RankProgram& program;
  const core::Job& job;
  Workspace& workspace;
  int tensor_position = 0;   ///< Of this rank within its role's tensor group.
  int context_position = 0;  ///< Within its context group.
  DataSources data;
  int step = 0;
  std::optional<int> microbatch;
  std::span<const Operand> reads;  ///< In the order that core/operator.h states.
  std::span<const Operand> writes;
};

}  // namespace orrery::engine
