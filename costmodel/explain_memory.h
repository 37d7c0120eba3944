#pragma once
// What the parts of a device's memory are, in words: for explain() of costmodel/estimate.h.

#include <string>

#include "core/cluster.h"
#include "core/job.h"
#include "core/model.h"
#include "core/plan.h"
#include "costmodel/collective_cost.h"
#include "costmodel/estimate.h"
#include "costmodel/memory.h"

namespace orrery::costmodel {

/// What the texts are filled with.
struct ExplainContext {
  const Estimate& estimate;
  const core::Plan& plan;
  const core::Model& model;
  const core::Cluster& cluster;
  const core::Job& job;
  core::Device device;
  FabricCost fabric;

  const core::DensePlan& dense() const { return *plan.dense; }
  bool is_dense() const { return plan.dense.has_value(); }
  bool shards(int stage) const { return is_dense() && dense().sharding_stage >= stage; }
};

/// "each layer", or "each of a stage's first 3 layers": those that recompute.
std::string layers_text(const ExplainContext&);
/// "1/8 of " where a device has a slice alone, from a stage of sharding on.
std::string slice_text(const ExplainContext&, int stage);
/// Where the bytes of a term come from.
std::string memory_text(MemoryTerm, const ExplainContext&);

}  // namespace orrery::costmodel
