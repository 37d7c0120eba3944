#pragma once
// Small models lowered to programs, with durations made up for the test.

#include "core/cluster.h"
#include "core/durations.h"
#include "core/plan.h"
#include "core/program.h"

namespace orrery::sim {

/// A GPT-2 of `layers` layers dealt evenly to the plan's stages and chunks; plan.layers_per_stage is
/// filled in. `microbatches` per data way.
core::Program lowered_gpt2(core::DensePlan plan, int layers, int microbatches,
                           const core::Cluster&);

/// A DeepFM with `workers` and `servers`.
core::Program lowered_deepfm(int workers, int servers, const core::Cluster&);

/// The forward and backward blocks of every role, and of every chunk, take the given time in all,
/// "step" none. Of a split backward pass, `backward` is for the input gradients.
core::Durations uniform_durations(const core::Program&, core::Seconds forward,
                                  core::Seconds backward, core::Seconds weight_grad = {});

/// Every compute instruction takes between 1 and 2 times `scale`, by its place alone.
core::Durations varied_durations(const core::Program&, core::Seconds scale);

/// `nodes` nodes of `devices` GPUs with `cards` cards each; a fat tree with two nodes a leaf, two
/// to one oversubscribed.
core::Cluster gpu_cluster(int nodes, int devices, int cards);

/// One node of CPU ranks that share two cores.
core::Cluster cpu_node(int ranks);

}  // namespace orrery::sim
