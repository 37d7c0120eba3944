#pragma once
// The rules behind core/check/plan_check.h: each function gives the first rule that is broken.

#include <cstdint>
#include <optional>
#include <string>

#include "core/job.h"
#include "core/model.h"
#include "core/plan.h"

namespace orrery::core {

using Reason = std::optional<std::string>;

// A Program lists every pass of a step, and this many take seconds to lower. The largest
// published plans have some ten thousand.
inline constexpr std::int64_t kMostPasses = 200'000;
// Bytes of a buffer are counted exactly, in doubles too, up to 2^53.
inline constexpr double kMostElements = 1e15;

/// What lowering does not cover of the model or the job, whatever the plan.
Reason transformer_not_covered(const Transformer&, const Job&);
Reason click_through_not_covered(const ClickThrough&, const Job&);

/// What the schedule asks of virtual_stages, microbatches, pass_times and recompute. The plan's
/// batch is divisible (microbatches()).
Reason schedule_mismatch(const DensePlan&, const Job&);

Reason why_dense_invalid(const DensePlan&, const Model&, const Job&, int devices);
Reason why_sparse_invalid(const SparsePlan&, const Model&, const Job&, int devices);

}  // namespace orrery::core
