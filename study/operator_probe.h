#pragma once
// Small training jobs whose traces hold every operator of the engine at many sizes: what a device
// file is fitted to. They are whole steps, so that caches, memory and the interpreter cost what
// they cost in training.

#include <filesystem>
#include <vector>

#include "core/cluster.h"
#include "core/job.h"
#include "core/model.h"
#include "core/plan.h"

namespace orrery::study {

struct OperatorProbe {
  core::Model model;
  core::Job job;
  core::Plan plan;
};

/// Steps that each probe runs.
inline constexpr int kProbeSteps = 6;

/// Transformers of two layers, GPT-2 and Llama style, from 32 to 512 wide, `ranks` data-parallel.
/// @param text  Any text file to train on.
std::vector<OperatorProbe> transformer_probes(int ranks, const std::filesystem::path& text);

/// DeepFM with `ranks` workers that serve too.
/// @param samples  A Criteo TSV file of at least kProbeSteps · kClickThroughBatch · ranks lines.
std::vector<OperatorProbe> click_through_probes(int ranks, const std::filesystem::path& samples);
inline constexpr int kClickThroughBatch = 512;

/// One node of `ranks` ranks that share memory, with the given device: what probes are lowered for.
core::Cluster one_node(const core::Device&, int ranks, int cores);

}  // namespace orrery::study
