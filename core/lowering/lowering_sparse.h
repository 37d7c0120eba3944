#pragma once
// The sparse part of a plan as a Program: workers that train a click-through model, servers that
// keep its embedding rows and answer pulls and pushes.
//
//   worker  pull s:   load samples ─ unique keys ─▶ Pull ────┐
//           train s:  rows ─ interact ─ MLP ─ loss ─ backward ─ row gradients ─▶ Push ─ weight
//           gradients update:   all-reduce of the dense gradients ─ optimizer step
//   server  pull s:   ServePull of each worker, server s beginning with worker s
//           push s:   ServePush of each worker likewise; then their sum in the workers' order
//           update:   the summed rows' optimizer step
//
// Slice s + 1 is pulled before slice s is trained, so that its rows arrive meanwhile. Rows change
// only at the step's end (synchronous mode), so every slice sees the same rows.

#include "core/cluster.h"
#include "core/job.h"
#include "core/model.h"
#include "core/plan.h"
#include "core/program.h"

namespace orrery::core {

/// @throws ConfigError where why_invalid() names a reason.
Program lower_sparse(const Plan&, const Model&, const Cluster&, const Job&);

/// The tables' rows, one table after the other; a table is cut into equal ranges of rows for the
/// fields that look up in it. Initial σ of a field of n rows: √(1/3n), the deviation of
/// uniform(−√(1/n), √(1/n)).
/// @source facebookresearch/dlrm, dlrm_s_pytorch.py, create_emb
Embedding embedding_of(const ClickThrough&, int servers);

/// Distinct rows that `samples` samples look up, expected under the fields' skew.
double expected_keys(const Embedding&, std::int64_t samples);

}  // namespace orrery::core
