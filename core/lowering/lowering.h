#pragma once
// Plan → Program, the only place where a plan becomes instructions.

#include "core/cluster.h"
#include "core/job.h"
#include "core/model.h"
#include "core/plan.h"
#include "core/program.h"

namespace orrery::core {

/// Lowers a plan for a model, a job and the ranks of a cluster.
/// @throws ConfigError where why_invalid() names a reason.
Program lower(const Plan&, const Model&, const Cluster&, const Job&);

/// The role of one pipeline stage of a valid dense plan, as lower() makes it: for who asks what a
/// stage costs, whatever ranks it runs on. It depends on no other stage's number of layers.
Role lower_stage(const Plan&, const Model&, const Job&, int stage);

/// A stage's buffers and parameters with its first and its last block alone, in that order, and
/// without waits: for who asks what a step's end costs. Those of lower_stage(), a fraction of its work.
Role lower_step(const Plan&, const Model&, const Job&, int stage);

/// As lower_stage(), for a plan that differs from that of `twin` in sizes alone (its microbatch, by
/// how many ranks something is shared): what waits for what
/// and when buffers end is the twin's, not derived again, which is most of the work.
Role lower_stage_like(const Role& twin, const Plan&, const Model&, const Job&, int stage);

}  // namespace orrery::core
